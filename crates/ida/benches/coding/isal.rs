//! Intel's ISA-L 2.x (<https://github.com/intel/isa-l>), opened at run time, so that the benchmark
//! builds and runs without it. Several versions can be open at once.

#![allow(unsafe_code, reason = "calls of a C library")]

use crate::Instructions;
use std::ffi::{CStr, CString, c_int, c_uchar, c_void};
use std::path::Path;

/// The library of the system, where Debian's `libisal2` is installed.
pub(crate) const SYSTEM_NAME: &str = "libisal.so.2";
/// Most fragments of a code.
const FRAGMENT_COUNT_MAX: usize = 255;

type GenerateMatrix = unsafe extern "C" fn(*mut c_uchar, c_int, c_int);
type InvertMatrix = unsafe extern "C" fn(*mut c_uchar, *mut c_uchar, c_int) -> c_int;
type InitTables = unsafe extern "C" fn(c_int, c_int, *mut c_uchar, *mut c_uchar);
type EncodeData =
    unsafe extern "C" fn(c_int, c_int, c_int, *mut c_uchar, *mut *mut c_uchar, *mut *mut c_uchar);
type Parity = unsafe extern "C" fn(c_int, c_int, *mut *mut c_void) -> c_int;

/// The functions of one version; it stays open as long as the process.
pub(crate) struct Library {
    /// Its name and version, as the table says them.
    pub(crate) name: String,
    generate_matrix: GenerateMatrix,
    invert_matrix: InvertMatrix,
    init_tables: InitTables,
    encode_data: EncodeData,
    xor_gen: Parity,
    pq_gen: Parity,
}

impl Library {
    /// Opens a library by its path, or by its name where the system has it. With `instructions` its
    /// functions for these are called, otherwise those that it finds best for this processor.
    ///
    /// # Errors
    /// If it does not open or lacks a function.
    pub(crate) fn open(path: &str, instructions: Instructions) -> Result<Self, String> {
        let name = CString::new(path).map_err(|_| format!("{path:?} is no path"))?;
        // SAFETY: the name ends in a zero byte; the library has no initialisers beside its own.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            return Err(format!("{path} does not open"));
        }
        let symbol = |name: &CStr| -> Result<*mut c_void, String> {
            // SAFETY: the handle is open and the name ends in a zero byte.
            let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
            if address.is_null() {
                return Err(format!("{path} has no {}", name.to_string_lossy()));
            }
            Ok(address)
        };
        let best = instructions == Instructions::Best;
        let either = |wanted: &CStr, other: &CStr| symbol(if best { wanted } else { other });
        let encode_data = either(c"ec_encode_data", c"ec_encode_data_avx2")?;
        // Since 2.31 tables differ by instructions.
        let init_tables = match best {
            true => symbol(c"ec_init_tables")?,
            false => symbol(c"ec_init_tables_base").or_else(|_| symbol(c"ec_init_tables"))?,
        };
        // SAFETY: the types are those of erasure_code.h and raid.h of ISA-L 2.30 and 2.31.
        unsafe {
            Ok(Self {
                name: version_of(&file_of(encode_data).unwrap_or_else(|| path.to_owned())),
                generate_matrix: std::mem::transmute::<*mut c_void, GenerateMatrix>(symbol(
                    c"gf_gen_cauchy1_matrix",
                )?),
                invert_matrix: std::mem::transmute::<*mut c_void, InvertMatrix>(symbol(
                    c"gf_invert_matrix",
                )?),
                init_tables: std::mem::transmute::<*mut c_void, InitTables>(init_tables),
                encode_data: std::mem::transmute::<*mut c_void, EncodeData>(encode_data),
                // An exclusive or needs nothing that AVX lacks.
                xor_gen: std::mem::transmute::<*mut c_void, Parity>(either(
                    c"xor_gen",
                    c"xor_gen_avx",
                )?),
                pq_gen: std::mem::transmute::<*mut c_void, Parity>(either(
                    c"pq_gen",
                    c"pq_gen_avx2",
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
        let mut from = [std::ptr::null_mut(); FRAGMENT_COUNT_MAX];
        let mut to = [std::ptr::null_mut(); FRAGMENT_COUNT_MAX];
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

    /// The functions for RAID: one target is the exclusive or of all sources (`xor_gen`), two are P and
    /// Q of RAID 6 (`pq_gen`).
    pub(crate) fn parity(&self, sources: &[&[u8]], targets: &mut [&mut [u8]]) {
        let length = sources[0].len();
        let count = sources.len() + targets.len();
        assert!(count <= FRAGMENT_COUNT_MAX, "fragments of one code");
        let mut all = [std::ptr::null_mut::<c_void>(); FRAGMENT_COUNT_MAX];
        for (place, source) in all.iter_mut().zip(sources) {
            assert_eq!(source.len(), length, "sources of one length");
            *place = source.as_ptr().cast_mut().cast();
        }
        for (place, target) in all[sources.len()..].iter_mut().zip(targets.iter_mut()) {
            assert_eq!(target.len(), length, "targets of one length");
            *place = target.as_mut_ptr().cast();
        }
        let is_aligned = |place: &*mut c_void| place.addr().is_multiple_of(32);
        assert!(length.is_multiple_of(32) && all.iter().all(is_aligned), "as raid.h demands");
        let function = match targets.len() {
            1 => self.xor_gen,
            2 => self.pq_gen,
            other => unreachable!("there is no function for {other} targets"),
        };
        // SAFETY: every pointer has `length` bytes and the alignment that raid.h asks for; only the
        // last ones, the targets, are written to.
        let outcome = unsafe { function(to_int(count), to_int(length), all.as_mut_ptr()) };
        assert_eq!(outcome, 0, "the arguments are valid");
    }
}

/// The file from which a function was loaded, links followed.
fn file_of(function: *mut c_void) -> Option<String> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: `info` is writable and outlives the call.
    let found = unsafe { libc::dladdr(function, &raw mut info) } != 0;
    if !found || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the name of an open library ends in a zero byte and lives as long as it is open.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    let file = std::fs::canonicalize(name.to_str().ok()?).ok()?;
    Some(file.to_string_lossy().into_owned())
}

/// `libisal.so.2.0.31` holds version 2.31; another name stands for itself.
fn version_of(file: &str) -> String {
    let name = Path::new(file).file_name().map_or(file.into(), |name| name.to_string_lossy());
    name.strip_prefix("libisal.so.2.0.")
        .map_or_else(|| format!("isa-l {name}"), |minor| format!("isa-l 2.{minor}"))
}

fn to_int(count: usize) -> c_int {
    c_int::try_from(count).expect("sizes of a benchmark are small")
}
