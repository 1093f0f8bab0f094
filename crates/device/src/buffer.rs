//! Bytes at an aligned address, owned by whoever holds the request, so that the kernel may use them
//! until the completion hands them back. No `unsafe`: a longer piece of memory is offset to the
//! boundary, and the crate `bytes` cuts one piece into buffers that own their part.
//!
//! ```text
//!   one buffer   │ up to the boundary │ n bytes │ rest │          n + alignment bytes
//!   a batch      │ up to the boundary │ n │ n │ n │ n │ ... │     n bytes each, one alignment for all
//! ```
//!
//! 1. The address never changes while the buffer lives; its heap block is never reallocated.
//! 2. The memory of a batch is given back when the last of its buffers goes.

use bytes::{Buf, Bytes, BytesMut};
use nandu_base::{LARGE_PAGE_BYTES, prefer_large_pages, zeros};
use std::alloc::Layout;
use std::fmt;

/// The alignment that direct I/O is content with everywhere.
pub const DEFAULT_ALIGNMENT: usize = 4096;

/// An aligned, owned run of bytes.
pub struct IoBuffer {
    memory: BytesMut,
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
        Self { memory: aligned_memory(len, alignment).unwrap_or_else(|| refused(len)) }
    }

    /// `count` buffers of `len` zero bytes, each at a multiple of `alignment`, from one allocation:
    /// for a pool, where each buffer should cost no more than its bytes. From 2 MiB on it begins where a
    /// large page may, which makes large requests cheaper for the kernel.
    ///
    /// # Panics
    /// If `alignment` is no power of two.
    #[must_use]
    pub fn batch(count: usize, len: usize, alignment: usize) -> Vec<Self> {
        Self::try_batch(count, len, alignment).unwrap_or_else(|| refused(count * len))
    }

    /// As [`Self::batch`]; `None` where the system does not give the memory.
    ///
    /// # Panics
    /// If `alignment` is no power of two.
    #[must_use]
    pub fn try_batch(count: usize, len: usize, alignment: usize) -> Option<Vec<Self>> {
        Self::batch_of(count, len, alignment, LARGE_PAGE_BYTES)
    }

    /// As [`Self::batch`], beginning with a large page however small it is, for who would rather lose most
    /// of one than have a request be one piece for each small page to the kernel and the drive.
    ///
    /// # Panics
    /// If `alignment` is no power of two.
    #[must_use]
    pub fn batch_on_large_pages(count: usize, len: usize, alignment: usize) -> Vec<Self> {
        Self::batch_of(count, len, alignment, 0).unwrap_or_else(|| refused(count * len))
    }

    /// A batch on large pages from `large_from` bytes on.
    fn batch_of(
        count: usize,
        len: usize,
        alignment: usize,
        large_from: usize,
    ) -> Option<Vec<Self>> {
        let step = len.next_multiple_of(alignment);
        let byte_count = count * step;
        let mut memory = if byte_count >= large_from {
            aligned_memory(byte_count.max(LARGE_PAGE_BYTES), LARGE_PAGE_BYTES.max(alignment))?
        } else {
            aligned_memory(byte_count, alignment)?
        };
        let mut next = || {
            let mut part = memory.split_to(step);
            part.truncate(len);
            Self { memory: part }
        };
        Some((0..count).map(|_| next()).collect())
    }

    /// Makes the buffer shorter, or as long again as it once was; bytes that come back are zeros. Its
    /// address stays.
    ///
    /// # Panics
    /// If it never was that long.
    pub fn resize(&mut self, len: usize) {
        assert!(len <= self.memory.capacity(), "a buffer keeps its memory");
        self.memory.resize(len, 0);
    }

    /// The most bytes that [`Self::resize`] can give it.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.memory.capacity()
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

/// Ends the process, as an allocation does that is refused.
fn refused<T>(len: usize) -> T {
    std::alloc::handle_alloc_error(Layout::array::<u8>(len).unwrap_or(Layout::new::<u8>()))
}

/// Zeros from a multiple of `alignment` on; `None` where the system does not give them.
fn aligned_memory(len: usize, alignment: usize) -> Option<BytesMut> {
    assert!(alignment.is_power_of_two(), "alignment is a power of two");
    // They are nobody else's, and so not copied.
    let mut memory = BytesMut::from(Bytes::from(zeros(len + alignment - 1)?));
    prefer_large_pages(&mut memory);
    let offset = memory.as_ptr().addr().wrapping_neg() & (alignment - 1);
    memory.advance(offset);
    memory.truncate(len);
    Some(memory)
}

impl std::ops::Deref for IoBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory
    }
}

impl std::ops::DerefMut for IoBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }
}

impl fmt::Debug for IoBuffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "IoBuffer({} bytes)", self.len())
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

    #[test]
    fn a_buffer_that_was_cut_grows_again_in_place() {
        let mut buffer = IoBuffer::copy_of(&[7; 8192]);
        let address = buffer.as_ptr().addr();
        buffer.resize(4096);
        assert_eq!(buffer.len(), 4096);
        buffer.resize(8192);
        assert_eq!((buffer.as_ptr().addr(), buffer.len()), (address, 8192));
        assert_eq!((buffer[4095], buffer[4096]), (7, 0));
    }

    #[test]
    fn a_batch_lies_side_by_side_and_each_buffer_is_its_own() {
        let mut buffers = IoBuffer::batch(5, 4096, 4096);
        for (number, buffer) in (0_u8..).zip(&mut buffers) {
            assert_eq!((buffer.len(), buffer.as_ptr().addr() % 4096), (4096, 0));
            assert!(buffer.iter().all(|&byte| byte == 0));
            buffer.fill(number);
        }
        let addresses: Vec<usize> = buffers.iter().map(|buffer| buffer.as_ptr().addr()).collect();
        assert!(addresses.windows(2).all(|pair| pair[0] + 4096 == pair[1]), "nothing between them");
        let kept = buffers.swap_remove(3);
        drop(buffers);
        assert_eq!(kept[..], [3; 4096], "the memory stays until the last one goes");
    }

    #[test]
    fn a_large_batch_begins_at_a_large_page() {
        let buffers = IoBuffer::batch(3, 1 << 20, 512);
        assert_eq!(buffers[0].as_ptr().addr() % LARGE_PAGE_BYTES, 0);
        assert_eq!(buffers[1].as_ptr().addr() - buffers[0].as_ptr().addr(), 1 << 20);
        assert_eq!(IoBuffer::batch(1, LARGE_PAGE_BYTES, 512)[0].len(), LARGE_PAGE_BYTES);
        for len in [512, 1 << 20, LARGE_PAGE_BYTES + 512] {
            let buffers = IoBuffer::batch_on_large_pages(2, len, 512);
            assert_eq!(buffers[0].as_ptr().addr() % LARGE_PAGE_BYTES, 0);
            assert_eq!((buffers[0].len(), buffers[1].len()), (len, len));
        }
    }

    #[test]
    fn a_batch_of_odd_lengths_is_aligned_too() {
        for buffer in IoBuffer::batch(3, 700, 512) {
            assert_eq!((buffer.len(), buffer.as_ptr().addr() % 512), (700, 0));
        }
        assert!(IoBuffer::batch(0, 512, 512).is_empty());
        assert_eq!(IoBuffer::batch(2, 0, 512).len(), 2);
    }
}
