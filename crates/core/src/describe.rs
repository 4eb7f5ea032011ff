//! JSON Schemas generated from types.

use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

/// Generates a self-contained schema for deserializing this type. Clients do not resolve references.
#[must_use]
pub fn input_schema<T: JsonSchema>() -> Value {
    schema::<T>(&Contract::Deserialize)
}

/// Generates a self-contained schema for serializing this type.
#[must_use]
pub fn output_schema<T: JsonSchema>() -> Value {
    schema::<T>(&Contract::Serialize)
}

fn schema<T: JsonSchema>(contract: &Contract) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.contract = contract.clone();
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut value = SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value();
    adapt(&mut value, contract);
    if let Some(root) = value.as_object_mut() {
        root.shift_remove("title");
        root.shift_remove("description");
    }
    value
}

/// Removes number formats from a schema: clients that do not know them log a warning for each. In an input schema, a
/// bound takes the place of a format that implies one. Patterns are only for those who write a value.
fn adapt(schema: &mut Value, contract: &Contract) {
    const WIDTHS: [&str; 12] = [
        "int8", "int16", "int32", "int64", "int", "uint8", "uint16", "uint32", "uint64", "uint", "float",
        "double",
    ];
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| adapt(item, contract)),
        Value::Object(object) => {
            let is_width = |value: &Value| value.as_str().is_some_and(|name| WIDTHS.contains(&name));
            if object.get("format").is_some_and(is_width) {
                let format = object.shift_remove("format");
                if contract.is_deserialize() && format == Some("uint32".into()) {
                    object.entry("maximum").or_insert_with(|| u32::MAX.into());
                }
            }
            if !contract.is_deserialize() && object.get("pattern").is_some_and(Value::is_string) {
                object.shift_remove("pattern");
            }
            object.values_mut().for_each(|value| adapt(value, contract));
        }
        _ => {}
    }
}
