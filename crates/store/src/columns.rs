//! The columns of a segment, derived from the table of fields in `tacho_record`.

use std::sync::{Arc, LazyLock};

use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Int16Builder, LargeStringBuilder, ListBuilder, StringBuilder,
    StructBuilder, TimestampMicrosecondBuilder, UInt16Builder, UInt32Builder, UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field as ArrowField, Fields, Schema, TimeUnit};
use tacho_record::line::LineValue;
use tacho_record::{Field, Kind};

/// Name of the column with the origin's name.
pub const SERVER: &str = "server";
/// Names of the elements of `tables`.
const TABLE_FIELDS: [&str; 5] = ["access", "db", "table", "new_db", "new_table"];
/// Names of the elements of `attributes`.
const ATTRIBUTE_FIELDS: [&str; 2] = ["key", "value"];

/// What a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// The name of the origin.
    Server,
    /// A field of the record.
    Field(Field),
    /// The generation of the log at the hub.
    Generation,
    /// The name of the log file.
    File,
    /// The position of the line in the log file, in bytes.
    Offset,
    /// The offset of the line's times from UTC, in minutes.
    TsOffset,
    /// The line, if the other columns do not give it back byte for byte.
    Raw,
}

impl ColumnKind {
    /// Whether it is about the record and its origin, and not about its place at the hub.
    pub fn is_of_record(self) -> bool {
        matches!(self, Self::Server | Self::Field(_))
    }
}

/// A column of a segment, and of the view `records`.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it has.
    pub kind: ColumnKind,
}

/// All columns in their order.
pub static COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let mut columns = vec![Column { name: SERVER, kind: ColumnKind::Server }];
    columns.extend(
        Field::ALL
            .iter()
            .map(|&field| Column { name: column_name(field), kind: ColumnKind::Field(field) }),
    );
    columns.extend([
        Column { name: "generation", kind: ColumnKind::Generation },
        Column { name: "file", kind: ColumnKind::File },
        Column { name: "offset", kind: ColumnKind::Offset },
        Column { name: "ts_offset", kind: ColumnKind::TsOffset },
        Column { name: "raw", kind: ColumnKind::Raw },
    ]);
    columns
});

/// The column of a field. The record's own `server` (product and version) gives way to the origin.
pub fn column_name(field: Field) -> &'static str {
    match field {
        Field::server => "server_version",
        other => other.name(),
    }
}

fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

fn struct_fields(names: &[&str]) -> Fields {
    names.iter().map(|name| ArrowField::new(*name, DataType::Utf8, true)).collect()
}

fn list_type(names: &[&str]) -> DataType {
    DataType::List(Arc::new(list_item(names)))
}

fn list_item(names: &[&str]) -> ArrowField {
    ArrowField::new("item", DataType::Struct(struct_fields(names)), true)
}

fn data_type(kind: ColumnKind) -> DataType {
    match kind {
        ColumnKind::Server | ColumnKind::File => DataType::Utf8,
        ColumnKind::Generation => DataType::UInt32,
        ColumnKind::Offset => DataType::UInt64,
        ColumnKind::TsOffset => DataType::Int16,
        ColumnKind::Raw => DataType::LargeUtf8,
        ColumnKind::Field(field) => match field.kind() {
            Kind::Seq | Kind::Number => DataType::UInt64,
            Kind::Port => DataType::UInt16,
            Kind::Errno => DataType::UInt32,
            Kind::Flag => DataType::Boolean,
            Kind::Instant | Kind::Time => time_type(),
            Kind::Event
            | Kind::Outcome
            | Kind::Name
            | Kind::Word
            | Kind::CharsetName
            | Kind::Digest => DataType::Utf8,
            // Of any length: 32-bit offsets do not reach for a batch of them.
            Kind::Message | Kind::Statement | Kind::Params => DataType::LargeUtf8,
            Kind::Tables => list_type(&TABLE_FIELDS),
            Kind::Attributes => list_type(&ATTRIBUTE_FIELDS),
        },
    }
}

/// The Arrow schema of a segment.
pub fn schema() -> Arc<Schema> {
    static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
        let fields = COLUMNS
            .iter()
            .map(|column| ArrowField::new(column.name, data_type(column.kind), true))
            .collect::<Fields>();
        Arc::new(Schema::new(fields))
    });
    Arc::clone(&SCHEMA)
}

/// Where a line comes from.
#[derive(Clone, Copy, Debug)]
pub struct LinePosition<'a> {
    /// Name of the origin.
    pub origin: &'a str,
    /// Generation of its log.
    pub generation: u32,
    /// Name of the log file.
    pub file: &'a str,
    /// Position of the line in the file, in bytes.
    pub offset: u64,
}

enum Builder {
    Number(UInt64Builder),
    Half(UInt32Builder),
    Port(UInt16Builder),
    Small(Int16Builder),
    Flag(BooleanBuilder),
    Time(TimestampMicrosecondBuilder),
    Text(StringBuilder),
    LongText(LargeStringBuilder),
    List(ListBuilder<StructBuilder>),
}

impl Builder {
    fn new(data_type: &DataType) -> Self {
        match data_type {
            DataType::UInt64 => Self::Number(UInt64Builder::new()),
            DataType::UInt32 => Self::Half(UInt32Builder::new()),
            DataType::UInt16 => Self::Port(UInt16Builder::new()),
            DataType::Int16 => Self::Small(Int16Builder::new()),
            DataType::Boolean => Self::Flag(BooleanBuilder::new()),
            DataType::Timestamp(..) => {
                Self::Time(TimestampMicrosecondBuilder::new().with_timezone("UTC"))
            }
            DataType::LargeUtf8 => Self::LongText(LargeStringBuilder::new()),
            DataType::List(item) => {
                let DataType::Struct(fields) = item.data_type() else {
                    unreachable!("lists have structs");
                };
                let builders = fields
                    .iter()
                    .map(|_| Box::new(StringBuilder::new()) as Box<dyn ArrayBuilder>)
                    .collect();
                let values = StructBuilder::new(fields.clone(), builders);
                Self::List(ListBuilder::new(values).with_field(Arc::clone(item)))
            }
            _ => Self::Text(StringBuilder::new()),
        }
    }

    fn append(&mut self, value: LineValue) {
        match (self, value) {
            (Self::Number(builder), LineValue::Number(number)) => builder.append_value(number),
            (Self::Number(builder), _) => builder.append_null(),
            (Self::Half(builder), LineValue::Number(number)) => {
                builder.append_option(u32::try_from(number).ok());
            }
            (Self::Half(builder), _) => builder.append_null(),
            (Self::Port(builder), LineValue::Number(number)) => {
                builder.append_option(u16::try_from(number).ok());
            }
            (Self::Port(builder), _) => builder.append_null(),
            (Self::Small(builder), LineValue::Number(number)) => {
                builder.append_option(i16::try_from(number).ok());
            }
            (Self::Small(builder), _) => builder.append_null(),
            (Self::Flag(builder), LineValue::True) => builder.append_value(true),
            (Self::Flag(builder), _) => builder.append_null(),
            (Self::Time(builder), LineValue::Time(time_us)) => builder.append_value(time_us),
            (Self::Time(builder), _) => builder.append_null(),
            (Self::Text(builder), LineValue::Text(text)) => builder.append_value(text),
            (Self::Text(builder), _) => builder.append_null(),
            (Self::LongText(builder), LineValue::Text(text) | LineValue::Json(text)) => {
                builder.append_value(text);
            }
            (Self::LongText(builder), _) => builder.append_null(),
            (Self::List(builder), value) => append_list(builder, value),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Number(builder) => Arc::new(builder.finish()),
            Self::Half(builder) => Arc::new(builder.finish()),
            Self::Port(builder) => Arc::new(builder.finish()),
            Self::Small(builder) => Arc::new(builder.finish()),
            Self::Flag(builder) => Arc::new(builder.finish()),
            Self::Time(builder) => Arc::new(builder.finish()),
            Self::Text(builder) => Arc::new(builder.finish()),
            Self::LongText(builder) => Arc::new(builder.finish()),
            Self::List(builder) => Arc::new(builder.finish()),
        }
    }
}

fn append_list(builder: &mut ListBuilder<StructBuilder>, value: LineValue) {
    let rows = builder.values();
    match value {
        LineValue::Tables(tables) => {
            for used in tables {
                let names = [&used.access, &used.db, &used.table, &used.new_db, &used.new_table]
                    .map(|it| {
                        // Absent in the line.
                        (!it.is_empty()).then_some(&**it)
                    });
                append_struct(rows, &names);
            }
            builder.append(true);
        }
        LineValue::Attributes(attributes) => {
            for attribute in attributes {
                append_struct(rows, &[Some(&*attribute.key), Some(&*attribute.value)]);
            }
            builder.append(true);
        }
        _ => builder.append(false),
    }
}

fn append_struct(rows: &mut StructBuilder, texts: &[Option<&str>]) {
    for (index, text) in texts.iter().enumerate() {
        if let Some(builder) = rows.field_builder::<StringBuilder>(index) {
            builder.append_option(*text);
        }
    }
    rows.append(true);
}

/// Rows that become a batch.
pub struct Rows {
    builders: Vec<Builder>,
    count: usize,
}

impl Rows {
    /// No rows.
    pub fn new() -> Self {
        let builders = schema().fields().iter().map(|f| Builder::new(f.data_type())).collect();
        Self { builders, count: 0 }
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Appends a row. `value` gives the fields; `offset_minutes` is that of the times; `raw` is
    /// the line, if it has to be kept.
    pub fn append<'a>(
        &mut self,
        place: LinePosition,
        offset_minutes: Option<i16>,
        raw: Option<&str>,
        value: impl Fn(Field) -> LineValue<'a>,
    ) {
        for (column, builder) in COLUMNS.iter().zip(&mut self.builders) {
            match column.kind {
                ColumnKind::Server => builder.append(LineValue::Text(place.origin)),
                ColumnKind::Field(field) => builder.append(value(field)),
                ColumnKind::Generation => {
                    builder.append(LineValue::Number(place.generation.into()))
                }
                ColumnKind::File => builder.append(LineValue::Text(place.file)),
                ColumnKind::Offset => builder.append(LineValue::Number(place.offset)),
                ColumnKind::TsOffset => {
                    if let Builder::Small(builder) = builder {
                        builder.append_option(offset_minutes);
                    }
                }
                ColumnKind::Raw => {
                    builder.append(raw.map_or(LineValue::Missing, LineValue::Text));
                }
            }
        }
        self.count += 1;
    }

    /// The rows as a batch; none are left.
    ///
    /// # Errors
    /// Never for rows that were appended here.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        self.count = 0;
        let arrays = self.builders.iter_mut().map(Builder::finish).collect();
        RecordBatch::try_new(schema(), arrays)
    }
}
