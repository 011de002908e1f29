//! `tidegate keygen`, and the key that `serve` makes for itself.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::bail;
use data_encoding::HEXLOWER;
use zeroize::Zeroizing;

use super::{is_standard_output, print};
use crate::config::{fingerprint, generate_key, write_new_secret};
use crate::exit::{self, Exit, Unavailable};
use crate::stderr;
use tidegate_proto::yojimbo::netcode::Key;

pub(super) fn run(out: Option<&Path>) -> anyhow::Result<Exit> {
    let key = generate_key()?;
    let Some(path) = out.filter(|path| !is_standard_output(path)) else {
        return print(&hex(&key));
    };
    match write_new_secret(path, hex(&key).as_bytes()) {
        Ok(()) => {
            stderr::remark(&format!(
                "made {} (fingerprint {})",
                path.display(),
                fingerprint(&key)
            ));
            Ok(Exit::Done)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "{} exists, and a key that is in use must not be lost: choose another name, or move \
             the old one and list it under previous_key_files",
            path.display()
        ),
        Err(error) => {
            let help = exit::help_line(exit::help_with(&error));
            Err(Unavailable(format!("cannot make {}: {error}{help}", path.display())).into())
        }
    }
}

/// Makes the key of a server without a configuration, for this start and all later ones.
///
/// A fresh key at every start would lock out everyone who holds the old one; a key in a temporary
/// place could not be given to anybody.
pub(super) fn make(path: &Path) -> anyhow::Result<()> {
    let key = generate_key()?;
    match write_new_secret(path, hex(&key).as_bytes()) {
        Ok(()) => stderr::remark(&format!(
            "made a key: {} (fingerprint {}); anybody who has it can make connect tokens",
            path.display(),
            fingerprint(&key)
        )),
        // Another tidegate that started at the same moment was faster; its key is as good.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => {
            let message = format!(
                "cannot make a key at {}: {error}; give --key FILE, or start where you may write",
                path.display()
            );
            return Err(Unavailable(message).into());
        }
    }
    Ok(())
}

fn hex(key: &Key) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(65));
    HEXLOWER.encode_append(key.as_bytes(), &mut text);
    text.push('\n');
    text
}
