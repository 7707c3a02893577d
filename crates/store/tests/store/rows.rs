//! What a snapshot has, read with the Parquet library alone.

use std::fs::File;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, TimestampMicrosecondType, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, StructArray};
use arrow_schema::DataType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Map, Value};
use tacho_store::{COLUMNS, Snapshot, record_json};

/// All rows, with all columns.
pub fn rows(snapshot: &Snapshot) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for path in snapshot.files(i64::MIN, i64::MAX) {
        let file = File::open(path).unwrap();
        for batch in ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap() {
            let batch = batch.unwrap();
            for row in 0..batch.num_rows() {
                rows.push(batch.columns().iter().map(|array| value(array, row)).collect());
            }
        }
    }
    rows
}

/// The JSON of all records.
pub fn records(snapshot: &Snapshot) -> Vec<String> {
    rows(snapshot).iter().map(|row| record_json(row).unwrap()).collect()
}

/// The values of a column.
pub fn column(snapshot: &Snapshot, name: &str) -> Vec<Value> {
    let at = COLUMNS.iter().position(|column| column.name == name).unwrap();
    rows(snapshot).into_iter().map(|mut row| row.swap_remove(at)).collect()
}

fn value(array: &dyn Array, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).into(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Timestamp(..) => {
            array.as_primitive::<TimestampMicrosecondType>().value(row).into()
        }
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).into(),
        DataType::List(_) => {
            let list = array.as_list::<i32>().value(row);
            let list: &StructArray = list.as_struct();
            (0..list.len()).map(|row| object(list, row)).collect()
        }
        other => panic!("{other}"),
    }
}

fn object(list: &StructArray, row: usize) -> Value {
    let members = list.fields().iter().zip(list.columns());
    let members = members.map(|(field, array)| (field.name().clone(), value(array, row)));
    Value::Object(members.collect::<Map<_, _>>())
}
