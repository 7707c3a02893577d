//! DuckDB's C functions, found in the library at run time.
//!
//! Declarations are those of `duckdb.h` of release 1.5.

use std::ffi::{c_char, c_void};
use std::path::Path;

/// 0: success.
pub type State = i32;
/// A handle; null if there is none.
pub type Handle = *mut c_void;

/// `duckdb_result`, passed by value to some functions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawResult {
    deprecated_column_count: u64,
    deprecated_row_count: u64,
    deprecated_rows_changed: u64,
    deprecated_columns: Handle,
    deprecated_error_message: *mut c_char,
    internal_data: Handle,
}

impl RawResult {
    /// Before a function fills it.
    pub const EMPTY: Self = Self {
        deprecated_column_count: 0,
        deprecated_row_count: 0,
        deprecated_rows_changed: 0,
        deprecated_columns: std::ptr::null_mut(),
        deprecated_error_message: std::ptr::null_mut(),
        internal_data: std::ptr::null_mut(),
    };
}

/// `duckdb_aggregate_state_size`.
pub type StateSize = unsafe extern "C" fn(info: Handle) -> u64;
/// `duckdb_aggregate_init_t`.
pub type StateInit = unsafe extern "C" fn(info: Handle, state: Handle);
/// `duckdb_aggregate_update_t`: a state for each row of the chunk.
pub type Update = unsafe extern "C" fn(info: Handle, chunk: Handle, states: *mut Handle);
/// `duckdb_aggregate_combine_t`.
pub type Combine =
    unsafe extern "C" fn(info: Handle, sources: *mut Handle, targets: *mut Handle, count: u64);
/// `duckdb_aggregate_finalize_t`: the results begin at `offset` of the vector.
pub type Finalize = unsafe extern "C" fn(
    info: Handle,
    states: *mut Handle,
    results: Handle,
    count: u64,
    offset: u64,
);
/// `duckdb_aggregate_destroy_t`.
pub type DestroyStates = unsafe extern "C" fn(states: *mut Handle, count: u64);

macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the loaded library.
        #[allow(missing_docs, reason = "they are DuckDB's, and documented there")]
        pub struct Api {
            $(pub $name: unsafe extern "C" fn($($argument: $type),*) $(-> $result)?,)*
            /// The functions are valid as long as it is loaded.
            _library: libloading::Library,
        }

        impl Api {
            /// Loads the library.
            ///
            /// # Errors
            /// If it cannot be loaded, or lacks a function.
            pub fn load(path: &Path) -> Result<Self, libloading::Error> {
                // SAFETY: DuckDB's library has no initializers with preconditions.
                let library = unsafe { libloading::Library::new(path)? };
                // SAFETY: the types are those of duckdb.h.
                let api = unsafe {
                    Self {
                        $($name: *library.get(concat!("duckdb_", stringify!($name), "\0"))?,)*
                        _library: library,
                    }
                };
                Ok(api)
            }
        }
    };
}

functions! {
    fn library_version() -> *const c_char;
    fn create_config(config: *mut Handle) -> State;
    fn set_config(config: Handle, name: *const c_char, value: *const c_char) -> State;
    fn destroy_config(config: *mut Handle);
    fn open_ext(path: *const c_char, database: *mut Handle, config: Handle,
        error: *mut *mut c_char) -> State;
    fn close(database: *mut Handle);
    fn connect(database: Handle, connection: *mut Handle) -> State;
    fn disconnect(connection: *mut Handle);
    fn interrupt(connection: Handle);
    fn prepare(connection: Handle, sql: *const c_char, statement: *mut Handle) -> State;
    fn prepare_error(statement: Handle) -> *const c_char;
    fn destroy_prepare(statement: *mut Handle);
    fn prepared_statement_type(statement: Handle) -> i32;
    fn prepared_statement_column_count(statement: Handle) -> u64;
    fn prepared_statement_column_logical_type(statement: Handle, column: u64) -> Handle;
    fn execute_prepared_streaming(statement: Handle, result: *mut RawResult) -> State;
    fn result_error(result: *mut RawResult) -> *const c_char;
    fn destroy_result(result: *mut RawResult);
    fn column_count(result: *mut RawResult) -> u64;
    fn column_name(result: *mut RawResult, column: u64) -> *const c_char;
    fn column_logical_type(result: *mut RawResult, column: u64) -> Handle;
    fn fetch_chunk(result: RawResult) -> Handle;
    fn destroy_data_chunk(chunk: *mut Handle);
    fn data_chunk_get_size(chunk: Handle) -> u64;
    fn data_chunk_get_vector(chunk: Handle, column: u64) -> Handle;
    fn vector_get_data(vector: Handle) -> *mut c_void;
    fn vector_get_validity(vector: Handle) -> *mut u64;
    fn list_vector_get_child(vector: Handle) -> Handle;
    fn struct_vector_get_child(vector: Handle, index: u64) -> Handle;
    fn get_type_id(logical_type: Handle) -> i32;
    fn decimal_scale(logical_type: Handle) -> u8;
    fn decimal_internal_type(logical_type: Handle) -> i32;
    fn list_type_child_type(logical_type: Handle) -> Handle;
    fn struct_type_child_count(logical_type: Handle) -> u64;
    fn struct_type_child_name(logical_type: Handle, index: u64) -> *mut c_char;
    fn struct_type_child_type(logical_type: Handle, index: u64) -> Handle;
    fn destroy_logical_type(logical_type: *mut Handle);
    fn free(pointer: *mut c_void);
    fn create_logical_type(type_id: i32) -> Handle;
    fn create_aggregate_function() -> Handle;
    fn destroy_aggregate_function(function: *mut Handle);
    fn aggregate_function_set_name(function: Handle, name: *const c_char);
    fn aggregate_function_add_parameter(function: Handle, logical_type: Handle);
    fn aggregate_function_set_return_type(function: Handle, logical_type: Handle);
    fn aggregate_function_set_functions(function: Handle, size: StateSize, init: StateInit,
        update: Update, combine: Combine, finalize: Finalize);
    fn aggregate_function_set_destructor(function: Handle, destroy: DestroyStates);
    fn aggregate_function_set_special_handling(function: Handle);
    fn aggregate_function_set_error(info: Handle, message: *const c_char);
    fn register_aggregate_function(connection: Handle, function: Handle) -> State;
    fn vector_assign_string_element_len(vector: Handle, row: u64, text: *const c_char,
        length: u64);
}
