//! Gives agents a tool made from a function. The model sees the schema of its argument.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use meerkat::{Runtime, Tool};

/// A division. These comments are in the schema, too.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Division {
    /// The number to divide.
    dividend: i64,
    /// The number to divide by.
    divisor: i64,
}

#[tokio::main]
async fn main() -> Result<(), meerkat::Error> {
    let divide = Tool::from_fn("divide", "Divides two numbers.", async |args: Division| {
        let quotient = args.dividend.checked_div(args.divisor);
        // The model reads an error, and continues.
        quotient.map(|it| it.to_string()).ok_or("the divisor must not be 0")
    });
    // The offline model calls a tool if the prompt says so.
    let runtime = Runtime::builder().model("offline").tool(divide).build()?;
    let session = runtime.session();
    for arguments in [r#"{"dividend": 42, "divisor": 6}"#, r#"{"dividend": 1, "divisor": 0}"#] {
        println!("{}", session.prompt(format!("call divide {arguments}")).await?.text);
    }
    Ok(())
}
