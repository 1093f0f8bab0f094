//! Intel's ISA-L 2.x (<https://github.com/intel/isa-l>), opened at run time, so that the benchmark
//! builds and runs without it.

#![allow(unsafe_code, reason = "calls of a C library")]

use std::ffi::{CStr, c_int, c_uchar, c_void};

const NAME: &CStr = c"libisal.so.2";

type GenerateMatrix = unsafe extern "C" fn(*mut c_uchar, c_int, c_int);
type InvertMatrix = unsafe extern "C" fn(*mut c_uchar, *mut c_uchar, c_int) -> c_int;
type InitTables = unsafe extern "C" fn(c_int, c_int, *mut c_uchar, *mut c_uchar);
type EncodeData =
    unsafe extern "C" fn(c_int, c_int, c_int, *mut c_uchar, *mut *mut c_uchar, *mut *mut c_uchar);

/// The functions of the library; it stays open as long as the process.
pub(crate) struct Library {
    generate_matrix: GenerateMatrix,
    invert_matrix: InvertMatrix,
    init_tables: InitTables,
    encode_data: EncodeData,
}

impl Library {
    /// Opens the library of the system.
    pub(crate) fn open() -> Result<Self, String> {
        // SAFETY: the name ends in a zero byte; the library has no initialisers beside its own.
        let handle = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            return Err(format!("{} does not open", NAME.to_string_lossy()));
        }
        let symbol = |name: &CStr| -> Result<*mut c_void, String> {
            // SAFETY: the handle is open and the name ends in a zero byte.
            let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
            if address.is_null() {
                return Err(format!("it has no {}", name.to_string_lossy()));
            }
            Ok(address)
        };
        // SAFETY: the types are those of erasure_code.h of ISA-L 2.30.
        unsafe {
            Ok(Self {
                generate_matrix: std::mem::transmute::<*mut c_void, GenerateMatrix>(symbol(
                    c"gf_gen_cauchy1_matrix",
                )?),
                invert_matrix: std::mem::transmute::<*mut c_void, InvertMatrix>(symbol(
                    c"gf_invert_matrix",
                )?),
                init_tables: std::mem::transmute::<*mut c_void, InitTables>(symbol(
                    c"ec_init_tables",
                )?),
                encode_data: std::mem::transmute::<*mut c_void, EncodeData>(symbol(
                    c"ec_encode_data",
                )?),
            })
        }
    }

    /// The library's Cauchy matrix of n rows and m columns, the identity on top.
    pub(crate) fn matrix(&self, n: usize, m: usize) -> Vec<u8> {
        let mut matrix = vec![0; n * m];
        // SAFETY: the matrix has n * m bytes.
        unsafe { (self.generate_matrix)(matrix.as_mut_ptr(), to_int(n), to_int(m)) };
        matrix
    }

    /// The inverse of a square matrix of `size` rows.
    pub(crate) fn invert(&self, mut square: Vec<u8>, size: usize) -> Vec<u8> {
        assert_eq!(square.len(), size * size, "the matrix is square");
        let mut inverse = vec![0; size * size];
        // SAFETY: both have size * size bytes.
        let outcome = unsafe {
            (self.invert_matrix)(square.as_mut_ptr(), inverse.as_mut_ptr(), to_int(size))
        };
        assert_eq!(outcome, 0, "its rows are independent");
        inverse
    }

    /// The lookup tables of `rows`, which have `m` columns.
    pub(crate) fn tables(&self, mut rows: Vec<u8>, m: usize) -> Vec<u8> {
        let mut tables = vec![0; 32 * rows.len()];
        let count = rows.len() / m;
        // SAFETY: the library writes 32 bytes for each coefficient.
        unsafe {
            (self.init_tables)(to_int(m), to_int(count), rows.as_mut_ptr(), tables.as_mut_ptr());
        }
        tables
    }

    /// Multiplies `sources` by the rows behind `tables` into `targets`.
    pub(crate) fn code(&self, tables: &[u8], sources: &[&[u8]], targets: &mut [&mut [u8]]) {
        let length = sources[0].len();
        assert_eq!(tables.len(), 32 * sources.len() * targets.len(), "a table for each pair");
        assert!(sources.iter().all(|source| source.len() == length), "sources of one length");
        assert!(targets.iter().all(|target| target.len() == length), "targets of one length");
        let mut from = [std::ptr::null_mut(); 255];
        let mut to = [std::ptr::null_mut(); 255];
        from.iter_mut().zip(sources).for_each(|(from, source)| *from = source.as_ptr().cast_mut());
        to.iter_mut().zip(targets.iter_mut()).for_each(|(to, target)| *to = target.as_mut_ptr());
        // SAFETY: every pointer has `length` bytes; the library does not write to tables or sources.
        unsafe {
            (self.encode_data)(
                to_int(length),
                to_int(sources.len()),
                to_int(targets.len()),
                tables.as_ptr().cast_mut(),
                from.as_mut_ptr(),
                to.as_mut_ptr(),
            );
        }
    }
}

fn to_int(count: usize) -> c_int {
    c_int::try_from(count).expect("sizes of a benchmark are small")
}
