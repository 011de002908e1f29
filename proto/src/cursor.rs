//! Reading whole-byte fields off the front of a datagram, never past its end.
//!
//! Writing needs no counterpart: everything is appended to a `Vec<u8>`.

/// What is left of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

/// The datagram ends before the field does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastEnd;

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, PastEnd> {
        let (&first, rest) = self.rest.split_first().ok_or(PastEnd)?;
        self.rest = rest;
        Ok(first)
    }

    /// Two bytes, the low one first.
    pub fn u16_le(&mut self) -> Result<u16, PastEnd> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes, the low one first.
    pub fn u32_le(&mut self) -> Result<u32, PastEnd> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes, the low one first.
    pub fn u64_le(&mut self) -> Result<u64, PastEnd> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// `N` bytes as they are.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], PastEnd> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(PastEnd)?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// Everything that was not read.
    pub const fn rest(self) -> &'a [u8] {
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_does_not_fit_takes_nothing() {
        let mut reader = Reader::new(&[1, 2, 3, 4]);
        assert_eq!(reader.u8(), Ok(1));
        assert_eq!(reader.u16_le(), Ok(0x0302));
        assert_eq!(reader.u16_le(), Err(PastEnd));
        assert_eq!(reader.array::<2>(), Err(PastEnd));
        assert_eq!(reader.rest(), [4]);
        assert_eq!(reader.array(), Ok([4]));
        assert_eq!(reader.u8(), Err(PastEnd));
    }
}
