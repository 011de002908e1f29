//! Bit packing: fields of any width, least significant bit first, with no gaps between them.
//!
//! Rule: docs/wire/bitpack.md. Bit `k` of the stream is bit `k % 8` of byte `k / 8`. A field that
//! fails to read fails the whole packet, so readers are used with `?` and dropped on error.

/// Why a field cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitError {
    /// The bytes end before the field does.
    PastEnd,
    /// The field holds a number outside its range.
    OutOfRange,
    /// A bit that only pads to the next byte is set.
    Padding,
}

/// Bits needed for the numbers from `min` to `max`; none when there is only one.
pub const fn width_of(min: i32, max: i32) -> u32 {
    let span = (max as i64 - min as i64) as u32;
    32 - span.leading_zeros()
}

/// Bits that lead from `bits` to the next whole byte.
pub const fn padding_after(bits: usize) -> usize {
    bits.wrapping_neg() % 8
}

/// The five ranges of a relative number (docs/wire/bitpack.md, section 3): smallest and largest
/// difference. A difference of 1 has a form of its own, larger ones write the number itself.
const TIERS: [(u32, u32); 5] = [(2, 6), (7, 23), (24, 280), (281, 4377), (4378, 69914)];

/// Reads fields from the front of a byte slice.
#[derive(Clone, Copy, Debug)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    /// Bits read so far; never more than there are.
    at: usize,
}

impl<'a> BitReader<'a> {
    /// Starts at the first bit.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bits read so far.
    pub const fn position(&self) -> usize {
        self.at
    }

    /// Whether nothing but zeros is left.
    pub fn rest_is_zero(&self) -> bool {
        let rest = self.bytes.get(self.at / 8..).unwrap_or_default();
        let Some((first, others)) = rest.split_first() else {
            return true;
        };
        first >> (self.at % 8) == 0 && others.iter().all(|byte| *byte == 0)
    }

    /// All bytes, read or not.
    pub const fn packet(&self) -> &'a [u8] {
        self.bytes
    }

    /// `width` bits, 0 to 32 of them.
    #[inline]
    pub fn bits(&mut self, width: u32) -> Result<u32, BitError> {
        debug_assert!(width <= 32);
        let end = self.at + width as usize;
        if end > self.bytes.len() * 8 {
            return Err(BitError::PastEnd);
        }
        let value = self.ahead() & ((1 << width) - 1);
        self.at = end;
        Ok(value as u32)
    }

    /// The next 57 bits, or more; zeros behind the last.
    #[inline]
    fn ahead(&self) -> u64 {
        let first = self.at / 8;
        let eight = self.bytes.get(first..first + 8);
        let word = match eight.and_then(|eight| eight.try_into().ok()) {
            Some(eight) => u64::from_le_bytes(eight),
            None => self.bytes[first..]
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        word >> (self.at % 8)
    }

    /// One bit.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, BitError> {
        Ok(self.bits(1)? == 1)
    }

    /// A number from `min` to `max`, in as many bits as the range needs.
    #[inline]
    pub fn int(&mut self, min: i32, max: i32) -> Result<i32, BitError> {
        let span = (i64::from(max) - i64::from(min)) as u32;
        let offset = self.bits(width_of(min, max))?;
        if offset > span {
            return Err(BitError::OutOfRange);
        }
        Ok(min.wrapping_add(offset as i32))
    }

    /// Goes to the next whole byte; the bits skipped must be zero.
    #[inline]
    pub fn align(&mut self) -> Result<(), BitError> {
        let held = self.at % 8;
        let current = self.bytes.get(self.at / 8).copied().unwrap_or(0);
        if held > 0 && current >> held != 0 {
            return Err(BitError::Padding);
        }
        self.at += padding_after(self.at);
        Ok(())
    }

    /// Aligns, even for no bytes at all, and takes `count` bytes where they are.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], BitError> {
        self.align()?;
        let first = self.at / 8;
        let taken = first
            .checked_add(count)
            .and_then(|end| self.bytes.get(first..end))
            .ok_or(BitError::PastEnd)?;
        self.at += count * 8;
        Ok(taken)
    }

    /// Passes over `count` bits whatever they are.
    pub fn skip(&mut self, count: usize) -> Result<(), BitError> {
        if count > self.bytes.len() * 8 - self.at {
            return Err(BitError::PastEnd);
        }
        self.at += count;
        Ok(())
    }

    /// A number larger than `previous`, written as its distance.
    #[inline]
    pub fn int_relative(&mut self, previous: u32) -> Result<u32, BitError> {
        if self.bool()? {
            return previous.checked_add(1).ok_or(BitError::OutOfRange);
        }
        self.int_further(previous)
    }

    /// What [`BitReader::int_relative`] reads, when it is not the next number.
    fn int_further(&mut self, previous: u32) -> Result<u32, BitError> {
        // A packet may have hundreds of these: all flags in one look.
        let smaller = self.ahead().trailing_zeros() as usize;
        if let Some(&(min, max)) = TIERS.get(smaller) {
            self.skip(smaller + 1)?;
            let distance = self.int(min as i32, max as i32)? as u32;
            return previous.checked_add(distance).ok_or(BitError::OutOfRange);
        }
        self.skip(TIERS.len())?;
        let current = self.bits(32)?;
        if current <= previous {
            return Err(BitError::OutOfRange);
        }
        Ok(current)
    }

    /// A 16-bit number after `previous`, across the wrap.
    ///
    /// The wire can say more than 16 bits can hold; what is left over is cut off, as the reference
    /// does. So the result may be any number, `previous` included.
    #[inline]
    pub fn sequence_relative(&mut self, previous: u16) -> Result<u16, BitError> {
        Ok(self.int_relative(u32::from(previous))? as u16)
    }
}

/// Appends fields to a byte vector, the first one at its end.
#[derive(Debug)]
pub struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Where in `out` the stream begins.
    start: usize,
    /// Bits that are not in `out` yet, and how many: 0 to 31. Fields are shorter than a byte, or odd; four bytes at
    /// once take less than each for itself.
    pending: u64,
    held: u32,
}

impl<'a> BitWriter<'a> {
    /// Starts behind what `out` already holds.
    pub const fn new(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        Self {
            out,
            start,
            pending: 0,
            held: 0,
        }
    }

    /// Bits written so far.
    pub const fn position(&self) -> usize {
        (self.out.len() - self.start) * 8 + self.held as usize
    }

    /// The low `width` bits of `value`, 0 to 32 of them; the others must be zero.
    #[inline]
    pub fn bits(&mut self, value: u32, width: u32) {
        debug_assert!(width <= 32 && u64::from(value) < 1 << width);
        self.pending |= u64::from(value) << self.held;
        self.held += width;
        if self.held >= 32 {
            let whole = self.pending as u32;
            self.out.extend_from_slice(&whole.to_le_bytes());
            self.pending >>= 32;
            self.held -= 32;
        }
    }

    /// One bit.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.bits(u32::from(value), 1);
    }

    /// A number from `min` to `max`; the caller has checked the range.
    #[inline]
    pub fn int(&mut self, value: i32, min: i32, max: i32) {
        debug_assert!((min..=max).contains(&value));
        self.bits(value.wrapping_sub(min) as u32, width_of(min, max));
    }

    /// Zero bits up to the next whole byte.
    #[inline]
    pub fn align(&mut self) {
        let whole = self.held.div_ceil(8) as usize;
        self.out
            .extend_from_slice(&self.pending.to_le_bytes()[..whole]);
        self.pending = 0;
        self.held = 0;
    }

    /// Aligns, even for no bytes at all, and appends `bytes`.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.align();
        self.out.extend_from_slice(bytes);
    }

    /// `current`, which is larger than `previous`, as its distance.
    pub fn int_relative(&mut self, previous: u32, current: u32) {
        debug_assert!(current > previous);
        let distance = current.wrapping_sub(previous);
        self.bool(distance == 1);
        if distance == 1 {
            return;
        }
        for (min, max) in TIERS {
            self.bool(distance <= max);
            if distance <= max {
                self.int(distance as i32, min as i32, max as i32);
                return;
            }
        }
        self.bits(current, 32);
    }

    /// A 16-bit number after `previous`, across the wrap; the two must differ.
    pub fn sequence_relative(&mut self, previous: u16, current: u16) {
        let wrap = if previous > current { 65536 } else { 0 };
        self.int_relative(u32::from(previous), u32::from(current) + wrap);
    }

    /// Sets bits of the first byte that were written as zeros, once their value is known.
    pub fn amend_first(&mut self, bits: u8) {
        match self.out.get_mut(self.start) {
            Some(first) => *first |= bits,
            None => self.pending |= u64::from(bits),
        }
    }

    /// Pads the last byte with zeros and returns the length of the stream in bits, before that.
    pub fn finish(mut self) -> usize {
        let bits = self.position();
        self.align();
        bits
    }
}

/// Bits that [`BitWriter::sequence_relative`] takes; the two must differ here as well.
pub fn sequence_relative_bits(previous: u16, current: u16) -> usize {
    let distance = u32::from(current.wrapping_sub(previous));
    if distance == 1 {
        return 1;
    }
    // The last range holds every distance of 16 bits.
    let smaller = TIERS.iter().take_while(|(_, max)| *max < distance).count();
    let (min, max) = TIERS[smaller];
    2 + smaller + width_of(min as i32, max as i32) as usize
}

#[cfg(test)]
mod tests;
