//! What a tunnel under our cipher can at most: the kernel's own TCP between the ends, and every byte sealed
//! at one and opened at the other, in pieces as long as our datagrams over loopback. Nothing else is decided
//! here, and what the backend says is thrown away.
//!
//! ```text
//!   u16 length  of what is sealed, little endian
//!   length      sealed
//!   16          tag
//! ```

use std::io::IoSlice;
use std::net::SocketAddr;

use anyhow::{Context, bail};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::carry;

/// Seals what programs write.
pub(crate) async fn connect(listen: SocketAddr, server: SocketAddr) -> anyhow::Result<()> {
    carry::pass_on(listen, server, seal).await
}

/// Opens it for the backend.
pub(crate) async fn serve(listen: SocketAddr, backend: SocketAddr) -> anyhow::Result<()> {
    carry::pass_on(listen, backend, open).await
}

async fn seal(mut from: TcpStream, to: TcpStream) -> anyhow::Result<()> {
    let mut cipher = Cipher::new()?;
    let mut buffer = vec![0; carry::READ_BYTES];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        let mut sealed = Vec::new();
        for piece in buffer[..count].chunks_mut(PIECE) {
            let length = (piece.len() as u16).to_le_bytes();
            let tag = cipher.seal(piece)?;
            sealed.push((length, &*piece, tag));
        }
        let mut slices = Vec::new();
        for (length, piece, tag) in &sealed {
            slices.extend([&length[..], piece, tag].map(IoSlice::new));
        }
        write_all(&to, &mut slices).await?;
    }
}

async fn open(mut from: TcpStream, to: TcpStream) -> anyhow::Result<()> {
    let mut cipher = Cipher::new()?;
    let mut buffer = vec![0; carry::READ_BYTES];
    let mut held = 0;
    loop {
        let count = from.read(&mut buffer[held..]).await?;
        if count == 0 {
            return Ok(());
        }
        held += count;
        let mut rest = &mut buffer[..held];
        let mut opened: Vec<&[u8]> = Vec::new();
        while let Some((length, _)) = rest.split_first_chunk() {
            let end = HEAD + usize::from(u16::from_le_bytes(*length)) + TAG;
            if rest.len() < end {
                break;
            }
            let (piece, behind) = rest.split_at_mut(end);
            opened.push(cipher.open(&mut piece[HEAD..])?);
            rest = behind;
        }
        let kept = rest.len();
        let mut slices: Vec<IoSlice<'_>> = opened.into_iter().map(IoSlice::new).collect();
        write_all(&to, &mut slices).await?;
        buffer.copy_within(held - kept..held, 0);
        held = kept;
    }
}

async fn write_all(to: &TcpStream, mut slices: &mut [IoSlice<'_>]) -> anyhow::Result<()> {
    while !slices.is_empty() {
        to.writable().await?;
        match to.try_write_vectored(slices) {
            Ok(0) => bail!("the connection takes nothing more"),
            Ok(count) => IoSlice::advance_slices(&mut slices, count),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// One key for all, with a number for each piece.
struct Cipher {
    key: LessSafeKey,
    pieces: u64,
}

impl Cipher {
    fn new() -> anyhow::Result<Self> {
        let key = UnboundKey::new(&AES_256_GCM, &[0x11; 32])
            .ok()
            .context("a key of 32 bytes")?;
        Ok(Self {
            key: LessSafeKey::new(key),
            pieces: 0,
        })
    }

    fn seal(&mut self, piece: &mut [u8]) -> anyhow::Result<[u8; TAG]> {
        let nonce = self.nonce();
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::empty(), piece);
        let tag = tag.ok().context("a piece is too long to be sealed")?;
        Ok(tag.as_ref().try_into()?)
    }

    fn open<'a>(&mut self, piece: &'a mut [u8]) -> anyhow::Result<&'a [u8]> {
        let nonce = self.nonce();
        let opened = self.key.open_in_place(nonce, Aad::empty(), piece);
        Ok(opened.ok().context("a piece is not what was sealed")?)
    }

    fn nonce(&mut self) -> Nonce {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&self.pieces.to_le_bytes());
        self.pieces += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

/// What one of our datagrams over loopback has at most, about.
const PIECE: usize = 8192;
const HEAD: usize = 2;
const TAG: usize = 16;
