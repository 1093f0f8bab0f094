//! C libraries of the system, loaded while the program runs: an engine that is not installed is
//! left out of the table instead of breaking the build.
//!
//! 1. A library is never unloaded, so a function found in it can be called for ever.

#![allow(unsafe_code, reason = "functions of C libraries have no other entrance")]

use crate::Failure;
use libloading::Library;
use std::ffi::{CStr, CString, c_char};
use std::path::Path;

/// The first of `names` that the system's loader finds, and that name.
///
/// # Errors
/// [`Failure::Missing`] with the command that installs `package`.
pub(crate) fn load<'a>(
    names: &[&'a str],
    package: &str,
) -> Result<(&'static Library, &'a str), Failure> {
    for name in names {
        // SAFETY: these are well-known libraries whose initialisers only set up their own state.
        if let Ok(library) = unsafe { Library::new(*name) } {
            return Ok((Box::leak(Box::new(library)), name));
        }
    }
    Err(Failure::Missing(format!("not installed; run `apt-get install {package}`")))
}

/// The address of a function of `library`.
///
/// # Errors
/// If the library has none of that name: another version than expected.
pub(crate) fn function<F: Copy>(library: &'static Library, name: &str) -> Result<F, Failure> {
    // SAFETY: the caller's type is the C declaration of that name, and the library stays loaded.
    let symbol = unsafe { library.get::<F>(name) };
    symbol.map(|symbol| *symbol).map_err(|_| Failure::Missing(format!("its library has no {name}")))
}

/// A path as C takes it.
///
/// # Errors
/// If there is a zero byte in it.
pub(crate) fn c_path(path: &Path) -> Result<CString, Failure> {
    CString::new(path.as_os_str().as_encoded_bytes())
        .map_err(|_| Failure::Engine(format!("{}: a zero byte in a path", path.display())))
}

/// A text of C, or nothing where there is none.
pub(crate) fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller has it from a function that answers with a text ended by a zero byte.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The functions of a C library in a struct, each with its declaration.
macro_rules! c_functions {
    ($name:ident { $($function:ident($($argument:ty),* $(,)?) $(-> $answer:ty)?;)* }) => {
        /// The functions that are used, as their header declares them.
        #[derive(Clone, Copy)]
        struct $name {
            $($function: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)*
        }

        impl $name {
            /// Finds all of them.
            fn of(library: &'static libloading::Library) -> Result<Self, crate::Failure> {
                Ok(Self {
                    $($function: crate::library::function(library, stringify!($function))?,)*
                })
            }
        }
    };
}

pub(crate) use c_functions;
