//! A safe interface to DuckDB's C functions.

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use crate::ffi::{Api, Handle, RawResult};
use crate::value::{Type, Vector};

/// Why DuckDB did not do it: its own words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EngineError(pub String);

/// `DUCKDB_STATEMENT_TYPE_SELECT`.
pub const SELECT: i32 = 1;

/// # Safety
/// `text` is null or a C string.
unsafe fn owned(text: *const c_char) -> String {
    if text.is_null() {
        return "unknown error".to_owned();
    }
    // SAFETY: as this function demands.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn c_text(text: &str) -> Result<CString, EngineError> {
    CString::new(text).map_err(|_| EngineError("the text has a zero byte".to_owned()))
}

/// An open database in memory.
pub struct Database {
    api: Arc<Api>,
    handle: Handle,
}

impl Database {
    /// Loads the library, and opens a database with these settings.
    ///
    /// # Errors
    /// If the library cannot be loaded, or does not know a setting.
    pub fn open(library: &Path, settings: &[(&str, &str)]) -> Result<Self, EngineError> {
        let load =
            |e: libloading::Error| EngineError(format!("cannot load {}: {e}", library.display()));
        let api = Arc::new(Api::load(library).map_err(load)?);
        let mut config = ptr::null_mut();
        // SAFETY: `config` is a place for a handle.
        unsafe { (api.create_config)(&mut config) };
        let mut refused = None;
        for (name, value) in settings {
            let (c_name, c_value) = (c_text(name)?, c_text(value)?);
            // SAFETY: a valid handle and two C strings.
            if unsafe { (api.set_config)(config, c_name.as_ptr(), c_value.as_ptr()) } != 0 {
                refused = Some(EngineError(format!("DuckDB does not accept {name} = {value}")));
            }
        }
        let mut handle = ptr::null_mut();
        let mut message = ptr::null_mut();
        let path = c_text(":memory:")?;
        // SAFETY: valid handles and places for results; the configuration is destroyed once.
        let state = unsafe {
            let state = (api.open_ext)(path.as_ptr(), &mut handle, config, &mut message);
            (api.destroy_config)(&mut config);
            state
        };
        if state != 0 {
            // SAFETY: the function gives a C string, which belongs to the caller.
            let error = unsafe {
                let error = EngineError(owned(message));
                (api.free)(message.cast());
                error
            };
            return Err(error);
        }
        let database = Self { api, handle };
        refused.map_or(Ok(database), Err)
    }

    /// The library's version, `v1.5.5`.
    pub fn version(&self) -> String {
        // SAFETY: the function returns a constant C string.
        unsafe { owned((self.api.library_version)()) }
    }

    /// A connection.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn connect(&self) -> Result<Connection, EngineError> {
        let mut handle = ptr::null_mut();
        // SAFETY: a valid handle, and a place for one.
        match unsafe { (self.api.connect)(self.handle, &mut handle) } {
            0 => Ok(Connection { api: Arc::clone(&self.api), handle }),
            _ => Err(EngineError("DuckDB gives no connection".to_owned())),
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: the handle is valid, and closed only here.
        unsafe { (self.api.close)(&mut self.handle) };
    }
}

/// A connection to the database.
pub struct Connection {
    pub(crate) api: Arc<Api>,
    pub(crate) handle: Handle,
}

// SAFETY: DuckDB's connections may be used by any thread, and interrupted by another one.
unsafe impl Send for Connection {}
// SAFETY: the same; queries of one connection take a lock.
unsafe impl Sync for Connection {}

impl Connection {
    /// Stops the query that runs now, if any.
    pub fn interrupt(&self) {
        // SAFETY: a valid handle.
        unsafe { (self.api.interrupt)(self.handle) };
    }

    /// Prepares one statement.
    ///
    /// # Errors
    /// If it is not valid, or more than one.
    pub fn prepare(&self, sql: &str) -> Result<Statement, EngineError> {
        let sql = c_text(sql)?;
        let mut handle = ptr::null_mut();
        // SAFETY: a valid handle, a C string, a place for a handle.
        let state = unsafe { (self.api.prepare)(self.handle, sql.as_ptr(), &mut handle) };
        let statement = Statement { api: Arc::clone(&self.api), handle };
        if state == 0 {
            return Ok(statement);
        }
        // SAFETY: a handle of a statement that could not be prepared is valid, or null.
        Err(EngineError(unsafe { owned((self.api.prepare_error)(statement.handle)) }))
    }

    /// Executes a statement of our own, without a result.
    ///
    /// # Errors
    /// DuckDB's.
    pub fn execute(&self, sql: &str) -> Result<(), EngineError> {
        self.prepare(sql)?.execute().map(|_| ())
    }

    /// The first value of the first row of a query of our own, a text.
    ///
    /// # Errors
    /// DuckDB's.
    pub fn text(&self, sql: &str) -> Result<Option<String>, EngineError> {
        let mut rows = self.prepare(sql)?.execute()?;
        let Some(chunk) = rows.next_chunk()? else { return Ok(None) };
        Ok(chunk.vector(&rows, 0).text(0).map(str::to_owned))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the handle is valid, and closed only here.
        unsafe { (self.api.disconnect)(&mut self.handle) };
    }
}

/// A prepared statement.
pub struct Statement {
    api: Arc<Api>,
    handle: Handle,
}

impl Statement {
    /// DuckDB's number of its kind: [`SELECT`].
    pub fn kind(&self) -> i32 {
        // SAFETY: a valid handle.
        unsafe { (self.api.prepared_statement_type)(self.handle) }
    }

    /// The types of the columns of its result.
    pub fn types(&self) -> Vec<Type> {
        // SAFETY: a valid handle.
        let count = unsafe { (self.api.prepared_statement_column_count)(self.handle) };
        let column = |index| {
            // SAFETY: a valid handle; the type belongs to the caller.
            let raw =
                unsafe { (self.api.prepared_statement_column_logical_type)(self.handle, index) };
            Type::take(&self.api, raw)
        };
        (0..count).map(column).collect()
    }

    /// Begins to execute it.
    ///
    /// # Errors
    /// DuckDB's.
    pub fn execute(self) -> Result<Rows, EngineError> {
        let mut result = RawResult::EMPTY;
        // SAFETY: a valid handle, and a place for a result.
        let state = unsafe { (self.api.execute_prepared_streaming)(self.handle, &mut result) };
        let mut rows = Rows {
            api: Arc::clone(&self.api),
            result,
            names: Vec::new(),
            types: Vec::new(),
            _statement: self,
        };
        if state != 0 {
            return Err(rows.error().unwrap_or(EngineError("unknown error".to_owned())));
        }
        rows.describe();
        Ok(rows)
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        // SAFETY: the handle is valid or null, and destroyed only here.
        unsafe { (self.api.destroy_prepare)(&mut self.handle) };
    }
}

/// The rows of a query, in chunks as they are computed.
pub struct Rows {
    pub(crate) api: Arc<Api>,
    result: RawResult,
    /// Names of the columns.
    pub names: Vec<String>,
    /// Types of the columns.
    pub types: Vec<Type>,
    _statement: Statement,
}

impl Rows {
    fn describe(&mut self) {
        // SAFETY: a valid result; names belong to it, types to the caller.
        unsafe {
            let count = (self.api.column_count)(&mut self.result);
            for column in 0..count {
                self.names.push(owned((self.api.column_name)(&mut self.result, column)));
                let raw = (self.api.column_logical_type)(&mut self.result, column);
                self.types.push(Type::take(&self.api, raw));
            }
        }
    }

    fn error(&mut self) -> Option<EngineError> {
        // SAFETY: a valid result; the message belongs to it.
        let message = unsafe { (self.api.result_error)(&mut self.result) };
        // SAFETY: not null, so a C string.
        (!message.is_null()).then(|| EngineError(unsafe { owned(message) }))
    }

    /// The next rows. `None`: there are no more.
    ///
    /// # Errors
    /// DuckDB's, also that the query was interrupted.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk>, EngineError> {
        // SAFETY: a valid result, copied as the function wants it.
        let handle = unsafe { (self.api.fetch_chunk)(self.result) };
        if handle.is_null() {
            return self.error().map_or(Ok(None), Err);
        }
        let chunk = Chunk { api: Arc::clone(&self.api), handle };
        Ok((chunk.len() > 0).then_some(chunk))
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        // SAFETY: the result is valid, and destroyed only here.
        unsafe { (self.api.destroy_result)(&mut self.result) };
    }
}

/// Some rows.
pub struct Chunk {
    api: Arc<Api>,
    handle: Handle,
}

impl Chunk {
    /// Number of rows.
    pub fn len(&self) -> usize {
        // SAFETY: a valid handle.
        unsafe { (self.api.data_chunk_get_size)(self.handle) as usize }
    }

    /// The values of a column.
    pub fn vector<'a>(&'a self, rows: &'a Rows, column: usize) -> Vector<'a> {
        assert!(column < rows.types.len(), "a column of the result");
        // SAFETY: a valid handle and column; the vector lives as long as the chunk, and has the
        // column's type and at least as many values as the chunk has rows.
        unsafe {
            let raw = (self.api.data_chunk_get_vector)(self.handle, column as u64);
            Vector::new(&self.api, raw, &rows.types[column])
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: the handle is valid, and destroyed only here.
        unsafe { (self.api.destroy_data_chunk)(&mut self.handle) };
    }
}
