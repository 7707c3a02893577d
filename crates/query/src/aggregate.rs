//! `time_histogram(times BLOB, time_us UBIGINT) -> VARCHAR`, an aggregate of DuckDB.
//!
//! It adds up statement times: encoded histograms of rollups, and times of records. A row has
//! either; NULL counts nothing. The result is the text of a [`Histogram`], empty if nothing was
//! counted.
//!
//! A state is one pointer: null, or a histogram of 5 KiB. That memory is not in DuckDB's account,
//! so users may not call the function (see `check`); the hub groups by a few hundred values.

use std::ffi::CStr;
use std::ptr;
use std::sync::{Arc, OnceLock};

use tacho_histogram::Histogram;

use crate::engine::{Connection, EngineError};
use crate::ffi::{Api, Handle};
use crate::value::{Type, Vector};

const NAME: &CStr = c"time_histogram";

// Types of `duckdb.h`.
const UBIGINT: i32 = 9;
const VARCHAR: i32 = 17;
const BLOB: i32 = 18;

/// DuckDB's functions for the callbacks below, which are given no data of our own but by them.
static API: OnceLock<Arc<Api>> = OnceLock::new();

impl Connection {
    /// Adds the function to the database.
    ///
    /// # Errors
    /// If DuckDB refuses it, or this process has added it to another database before.
    pub fn register_time_histogram(&self) -> Result<(), EngineError> {
        let failed = |why: &str| EngineError(format!("cannot add time_histogram: {why}"));
        let api = &self.api;
        API.set(Arc::clone(api)).map_err(|_| failed("a process has it once"))?;
        // SAFETY: handles are created here, and destroyed once. The callbacks have the types of
        // `duckdb.h`.
        let state = unsafe {
            let mut function = (api.create_aggregate_function)();
            (api.aggregate_function_set_name)(function, NAME.as_ptr());
            for parameter in [BLOB, UBIGINT] {
                let mut logical_type = (api.create_logical_type)(parameter);
                (api.aggregate_function_add_parameter)(function, logical_type);
                (api.destroy_logical_type)(&mut logical_type);
            }
            let mut logical_type = (api.create_logical_type)(VARCHAR);
            (api.aggregate_function_set_return_type)(function, logical_type);
            (api.destroy_logical_type)(&mut logical_type);
            (api.aggregate_function_set_functions)(
                function, state_size, init, update, combine, finalize,
            );
            (api.aggregate_function_set_destructor)(function, destroy);
            // Rows with a NULL are counted, too: one of the two arguments always is.
            (api.aggregate_function_set_special_handling)(function);
            let state = (api.register_aggregate_function)(self.handle, function);
            (api.destroy_aggregate_function)(&mut function);
            state
        };
        if state == 0 { Ok(()) } else { Err(failed("DuckDB refuses it")) }
    }
}

/// The place of a state's pointer.
///
/// # Safety
/// `state` was passed to [`init`], and not to [`destroy`] since.
unsafe fn read(state: Handle) -> *mut Histogram {
    // SAFETY: so it has a pointer; DuckDB's states need not be aligned for it.
    unsafe { ptr::read_unaligned(state.cast()) }
}

/// The histogram of a state, which gets one if it has none.
///
/// # Safety
/// As for [`read`]. The state is used by one thread at a time, as DuckDB's are, and the reference
/// ends before the state is used again.
unsafe fn histogram<'a>(state: Handle) -> &'a mut Histogram {
    // SAFETY: as this function demands; a pointer that is not null is one of `Box::into_raw`.
    unsafe {
        let mut histogram = read(state);
        if histogram.is_null() {
            histogram = Box::into_raw(Box::default());
            ptr::write_unaligned(state.cast(), histogram);
        }
        &mut *histogram
    }
}

// SAFETY of all callbacks: they are called by DuckDB as `duckdb.h` says, with as many states as a
// chunk has rows, or as `count` says. They do not unwind: a panic aborts the process.

unsafe extern "C" fn state_size(_info: Handle) -> u64 {
    size_of::<*mut Histogram>() as u64
}

unsafe extern "C" fn init(_info: Handle, state: Handle) {
    // SAFETY: the state has as many bytes as `state_size` says.
    unsafe { ptr::write_unaligned(state.cast(), ptr::null_mut::<Histogram>()) };
}

unsafe extern "C" fn update(info: Handle, chunk: Handle, states: *mut Handle) {
    let Some(api) = API.get() else { return };
    // SAFETY: the chunk has two columns of the declared types, which DuckDB has made flat. A `BLOB`
    // is stored as a text is.
    let (rows, times, time_us) = unsafe {
        let column = |index| (api.data_chunk_get_vector)(chunk, index);
        let rows = (api.data_chunk_get_size)(chunk) as usize;
        (
            rows,
            Vector::new(api, column(0), &Type::Text),
            Vector::new(api, column(1), &Type::Unsigned(8)),
        )
    };
    for row in 0..rows {
        // SAFETY: there is a state for each row.
        let state = unsafe { *states.add(row) };
        if let Some(time_us) = time_us.number(row) {
            // SAFETY: an initialised state, used here alone.
            unsafe { histogram(state) }.add(time_us);
        }
        if let Some(bytes) = times.bytes(row) {
            // SAFETY: an initialised state, used here alone.
            if unsafe { histogram(state) }.add_encoded(bytes).is_err() {
                // SAFETY: the handle of this call, and a C string that is copied.
                unsafe {
                    (api.aggregate_function_set_error)(
                        info,
                        c"a rollup has a malformed histogram of statement times".as_ptr(),
                    );
                }
                return;
            }
        }
    }
}

unsafe extern "C" fn combine(
    _info: Handle,
    sources: *mut Handle,
    targets: *mut Handle,
    count: u64,
) {
    for at in 0..count as usize {
        // SAFETY: `count` initialised states in each array; source and target are not the same, and
        // the source stays as it is until it is destroyed.
        unsafe {
            let source = read(*sources.add(at));
            if !source.is_null() {
                histogram(*targets.add(at)).merge(&*source);
            }
        }
    }
}

unsafe extern "C" fn finalize(
    _info: Handle,
    states: *mut Handle,
    results: Handle,
    count: u64,
    offset: u64,
) {
    let Some(api) = API.get() else { return };
    for at in 0..count {
        // SAFETY: `count` initialised states; the vector has room for a text for each from `offset`
        // on, and copies it.
        unsafe {
            let histogram = read(*states.add(at as usize));
            let text = histogram.as_ref().map(ToString::to_string).unwrap_or_default();
            let (start, length) = (text.as_ptr().cast(), text.len() as u64);
            (api.vector_assign_string_element_len)(results, offset + at, start, length);
        }
    }
}

unsafe extern "C" fn destroy(states: *mut Handle, count: u64) {
    for at in 0..count as usize {
        // SAFETY: `count` initialised states, destroyed once; the pointer is null or of
        // `Box::into_raw`.
        unsafe {
            let histogram = read(*states.add(at));
            if !histogram.is_null() {
                drop(Box::from_raw(histogram));
            }
        }
    }
}
