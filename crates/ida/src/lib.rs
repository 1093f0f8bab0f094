//! Floor 1: Rabin's information dispersal over GF(2^8), as a user of erasure codes would want it. An
//! object becomes n fragments, any m of which give it back (S000 section 8.3).
//!
//! ```text
//!   Dispersal   objects ⇄ fragments with header and checksum
//!       │
//!     Code ── Reconstructor ── Decoder     fragments in the caller's buffers, nothing allocated
//!       │
//!    combine    groups of outputs by groups of inputs, block by block
//!       │
//!    kernel     scalar │ ssse3 │ avx2 │ gfni │ neon, chosen when a code is made
//! ```
//!
//! Four data fragments and two coded ones; two are lost and computed again:
//!
//! ```
//! use nandu_ida::{Code, Matrix, Reconstructor};
//!
//! let code = Code::new(4, 6, Matrix::Cauchy)?;
//! let data = [*b"what does ", *b"flash do t", *b"o a databa", *b"se?       "];
//! let mut coded = [[0; 10]; 2];
//! code.encode(&data, &mut coded)?;
//!
//! let mut fragments = [data[0], [0; 10], data[2], data[3], [0; 10], coded[1]];
//! let mut reconstructor = Reconstructor::new(code, 16);
//! reconstructor.reconstruct(&mut fragments, [0, 2, 3, 5].into_iter().collect())?;
//! assert_eq!(fragments[1], data[1]);
//! assert_eq!(fragments[4], coded[0]);
//!
//! let error = reconstructor.reconstruct(&mut fragments, [2, 3, 5].into_iter().collect());
//! assert!(error.unwrap_err().to_string().contains("fragments 0, 1, 4 are lost"));
//! # Ok::<(), nandu_ida::IdaError>(())
//! ```
//!
//! Lost means known to be lost. A fragment that is wrong has to be found by its [`checksum`]: pass
//! [`Code::intact`] to a reconstructor, or let a [`Dispersal`] see to it.
//!
//! Absent on purpose: threads, files and the network; no secrecy either, since fragments of
//! [`Matrix::Cauchy`] are plain data.

pub mod field;

mod code;
mod combine;
mod decoder;
mod dispersal;
mod error;
mod kernel;
mod matrix;
mod set;

pub use code::Code;
pub use decoder::{Decoder, Reconstructor};
pub use dispersal::{Collected, Dispersal, HEADER_BYTES, checksum};
pub use error::IdaError;
pub use kernel::Kernel;
pub use matrix::Matrix;
pub use set::FragmentSet;
