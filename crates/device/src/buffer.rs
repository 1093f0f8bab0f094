//! Bytes at an aligned address, owned by whoever holds the request, so that the kernel may use them
//! until the completion hands them back. No `unsafe`: a longer `Vec` is offset to the boundary.
//!
//! 1. The address never changes while the buffer lives; its heap block is never reallocated.

use std::fmt;

/// The alignment that direct I/O is content with everywhere.
pub const DEFAULT_ALIGNMENT: usize = 4096;

/// An aligned, owned run of bytes.
pub struct IoBuffer {
    memory: Vec<u8>,
    offset: usize,
    len: usize,
}

impl IoBuffer {
    /// `len` zero bytes at a multiple of [`DEFAULT_ALIGNMENT`].
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        Self::with_alignment(len, DEFAULT_ALIGNMENT)
    }

    /// `len` zero bytes at a multiple of `alignment`.
    ///
    /// # Panics
    /// If `alignment` is no power of two.
    #[must_use]
    pub fn with_alignment(len: usize, alignment: usize) -> Self {
        assert!(alignment.is_power_of_two(), "alignment is a power of two");
        let memory = vec![0_u8; len + alignment];
        let offset = memory.as_ptr().addr().wrapping_neg() & (alignment - 1);
        Self { memory, offset, len }
    }

    /// A copy of `bytes`.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buffer = Self::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Whether the first byte lies on a multiple of `alignment`.
    #[must_use]
    pub fn is_aligned_to(&self, alignment: u32) -> bool {
        self.as_ptr().addr().is_multiple_of(alignment.max(1) as usize)
    }
}

impl std::ops::Deref for IoBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory[self.offset..self.offset + self.len]
    }
}

impl std::ops::DerefMut for IoBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.offset..self.offset + self.len]
    }
}

impl fmt::Debug for IoBuffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "IoBuffer({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_lie_on_their_boundary() {
        for alignment in [512, 4096, 65_536] {
            let buffer = IoBuffer::with_alignment(100, alignment);
            assert_eq!(buffer.as_ptr().addr() % alignment, 0);
            assert_eq!(buffer.len(), 100);
        }
        assert!(IoBuffer::zeroed(0).is_empty());
    }
}
