//! The inner loop of coding, once for each instruction set: some fragments of output, each a sum of
//! multiples of all fragments of input. All siblings compute the same bytes.
//!
//! ```text
//!   outputs[0]  =  rows[0][0] · inputs[0]  +  rows[0][1] · inputs[1]  +  …    (+ outputs[0])
//!   outputs[1]  =  rows[1][0] · inputs[0]  +  rows[1][1] · inputs[1]  +  …    (+ outputs[1])
//! ```
//!
//! An input is loaded once for up to four outputs, whose sums stay in registers.
//!
//! | kernel | product of a vector by a constant |
//! | --- | --- |
//! | `scalar` | two lookups a byte |
//! | `ssse3`, `avx2`, `neon` | two shuffles, one for each nibble |
//! | `gfni` over AVX2 or AVX-512 | one affine transform |
//!
//! 1. A [`Group`] has 1 to [`GROUP_OUTPUTS`] outputs and at most [`GROUP_INPUTS`] inputs, all of one
//!    length, and a coefficient for each pair.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod gfni;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod ssse3;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vector;

/// How many outputs share one pass over the inputs: what fits into sixteen registers.
pub(crate) const GROUP_OUTPUTS: usize = 4;
/// How many inputs one pass adds up: with the outputs about as many streams as a processor fetches
/// ahead. With 16 inputs of 64 KiB one pass is a third as fast as two of 8 (AMD Zen 3).
pub(crate) const GROUP_INPUTS: usize = 8;

/// The instructions that code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// No vector instructions; runs everywhere.
    Scalar,
    /// Byte shuffles of 16 bytes, x86 since 2006.
    Ssse3,
    /// Byte shuffles of 32 bytes, x86 since 2013.
    Avx2,
    /// Affine transforms of 32 bytes.
    GfniAvx2,
    /// Affine transforms of 64 bytes.
    GfniAvx512,
    /// Byte lookups of 16 bytes, every 64-bit ARM.
    Neon,
}

impl Kernel {
    /// All kernels, slow ones first.
    pub const ALL: [Self; 6] =
        [Self::Scalar, Self::Ssse3, Self::Avx2, Self::GfniAvx2, Self::GfniAvx512, Self::Neon];

    /// The kernels that this processor can run, slow ones first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kernel| kernel.is_available())
    }

    /// Its name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Ssse3 => "ssse3",
            Self::Avx2 => "avx2",
            Self::GfniAvx2 => "gfni-avx2",
            Self::GfniAvx512 => "gfni-avx512",
            Self::Neon => "neon",
        }
    }

    /// The fastest kernel that this processor can run.
    #[must_use]
    pub fn best() -> Self {
        Self::available().last().unwrap_or(Self::Scalar)
    }

    /// Whether this processor can run it.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Ssse3 => std::arch::is_x86_feature_detected!("ssse3"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => std::arch::is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::GfniAvx2 => {
                std::arch::is_x86_feature_detected!("gfni")
                    && std::arch::is_x86_feature_detected!("avx2")
            }
            #[cfg(target_arch = "x86_64")]
            Self::GfniAvx512 => {
                std::arch::is_x86_feature_detected!("gfni")
                    && std::arch::is_x86_feature_detected!("avx512f")
            }
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            _ => false,
        }
    }
}

impl std::fmt::Display for Kernel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.name())
    }
}

/// One pass: what to add up, and where to.
pub(crate) struct Group<'a, 'b, 'c> {
    /// For each output the coefficients of the inputs.
    pub(crate) rows: [&'a [u8]; GROUP_OUTPUTS],
    /// What is multiplied.
    pub(crate) inputs: &'a [&'b [u8]],
    /// Where the sums go.
    pub(crate) outputs: &'a mut [&'c mut [u8]],
    /// Whether the sums are added to what the outputs hold, or replace it.
    pub(crate) accumulate: bool,
}

impl Group<'_, '_, '_> {
    /// Bytes of each input and output.
    fn length(&self) -> usize {
        self.outputs[0].len()
    }

    /// Asserts the numbered invariant of this file. The kernels read and write by it.
    fn audit(&self) {
        assert!((1..=GROUP_OUTPUTS).contains(&self.outputs.len()), "outputs fit a group");
        assert!(self.inputs.len() <= GROUP_INPUTS, "inputs fit a group");
        let length = self.length();
        assert!(self.outputs.iter().all(|output| output.len() == length), "outputs of one length");
        assert!(self.inputs.iter().all(|input| input.len() == length), "inputs of that length");
        let rows = &self.rows[..self.outputs.len()];
        assert!(rows.iter().all(|row| row.len() == self.inputs.len()), "one coefficient a pair");
    }
}

/// Runs one pass with `kernel`, which must be available.
#[allow(unsafe_code, reason = "calling a function for certain processors")]
pub(crate) fn run(kernel: Kernel, group: &mut Group<'_, '_, '_>) {
    group.audit();
    assert!(kernel.is_available(), "a code holds an available kernel");
    match kernel {
        // SAFETY: the processor has ssse3, as was asserted above.
        #[cfg(target_arch = "x86_64")]
        Kernel::Ssse3 => unsafe { ssse3::run(group) },
        // SAFETY: the processor has avx2, as was asserted above.
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => unsafe { avx2::run(group) },
        // SAFETY: the processor has gfni and avx2, as was asserted above.
        #[cfg(target_arch = "x86_64")]
        Kernel::GfniAvx2 => unsafe { gfni::run_avx2(group) },
        // SAFETY: the processor has gfni and avx512f, as was asserted above.
        #[cfg(target_arch = "x86_64")]
        Kernel::GfniAvx512 => unsafe { gfni::run_avx512(group) },
        // SAFETY: the processor has neon, as was asserted above.
        #[cfg(target_arch = "aarch64")]
        Kernel::Neon => unsafe { neon::run(group) },
        _ => scalar::run(group),
    }
}

#[cfg(test)]
mod tests;
