//! JSON Schemas generated from types.

use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

/// Generates a self-contained schema for deserializing this type. Clients do not resolve references.
#[must_use]
pub fn input_schema<T: JsonSchema>() -> Value {
    schema::<T>(Contract::Deserialize)
}

/// Generates a self-contained schema for serializing this type.
#[must_use]
pub fn output_schema<T: JsonSchema>() -> Value {
    schema::<T>(Contract::Serialize)
}

fn schema<T: JsonSchema>(contract: Contract) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.contract = contract;
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut value = SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value();
    drop_formats(&mut value);
    if let Some(root) = value.as_object_mut() {
        root.shift_remove("title");
        root.shift_remove("description");
    }
    value
}

/// Removes number formats from a schema: clients that do not know them log a warning for each.
fn drop_formats(schema: &mut Value) {
    const WIDTHS: [&str; 12] = [
        "int8", "int16", "int32", "int64", "int", "uint8", "uint16", "uint32", "uint64", "uint", "float",
        "double",
    ];
    match schema {
        Value::Array(items) => items.iter_mut().for_each(drop_formats),
        Value::Object(object) => {
            if object.get("format").and_then(Value::as_str).is_some_and(|format| WIDTHS.contains(&format)) {
                object.shift_remove("format");
            }
            object.values_mut().for_each(drop_formats);
        }
        _ => {}
    }
}
