//! Numbers within a schema's bounds: zero if possible, otherwise the closest to a bound.

use serde_json::{Map, Number, Value};

/// Constraints of a schema on a number.
#[derive(Debug, Default)]
pub(super) struct Bounds<'a> {
    minimum: Option<Bound<'a>>,
    maximum: Option<Bound<'a>>,
    step: Option<&'a Number>,
}

#[derive(Debug)]
struct Bound<'a> {
    at: &'a Number,
    excluded: bool,
}

impl<'a> Bounds<'a> {
    /// Reads the bounds of a schema.
    pub(super) fn from_schema(schema: &'a Map<String, Value>) -> Self {
        Self {
            minimum: bound(schema, "minimum", "exclusiveMinimum", |a, b| a > b),
            maximum: bound(schema, "maximum", "exclusiveMaximum", |a, b| a < b),
            step: schema.get("multipleOf").and_then(number_of),
        }
    }
}

const fn number_of(value: &Value) -> Option<&Number> {
    match value {
        Value::Number(number) => Some(number),
        _ => None,
    }
}

fn bound<'a>(
    schema: &'a Map<String, Value>,
    key: &str,
    exclusive_key: &str,
    tighter: fn(Option<f64>, Option<f64>) -> bool,
) -> Option<Bound<'a>> {
    let included = schema.get(key).and_then(number_of);
    // The oldest drafts put `true` next to the inclusive bound.
    let flagged = schema.get(exclusive_key) == Some(&Value::Bool(true));
    let included = included.map(|at| Bound { at, excluded: flagged });
    let excluded = schema.get(exclusive_key).and_then(number_of);
    let excluded = excluded.map(|at| Bound { at, excluded: true });
    match (included, excluded) {
        (Some(a), Some(b)) if tighter(a.at.as_f64(), b.at.as_f64()) => Some(a),
        (a, b) => b.or(a),
    }
}

/// Returns an integer within the bounds.
pub(super) fn integer(bounds: &Bounds<'_>) -> Option<Value> {
    let minimum = bounds.minimum.as_ref().map_or(i128::from(i64::MIN), |b| nearest_integer(b, 1));
    let maximum = bounds.maximum.as_ref().map_or(i128::from(u64::MAX), |b| nearest_integer(b, -1));
    let fits = |n: i128| (minimum..=maximum).contains(&n);
    let step = integer_step(bounds.step)?;
    let up = minimum.div_euclid(step) * step;
    let candidates = [0, up, up.checked_add(step)?, maximum.div_euclid(step) * step];
    // Among the candidates above zero the first is closest to it, among those below the last.
    let value = if maximum < 0 {
        candidates.into_iter().rev().find(|n| fits(*n))
    } else {
        candidates.into_iter().find(|n| fits(*n))
    }?;
    let unsigned = u64::try_from(value).map(Value::from);
    unsigned.or_else(|_| i64::try_from(value).map(Value::from)).ok()
}

/// Returns the integer at a bound or next to it, in the direction of `inward`.
fn nearest_integer(bound: &Bound<'_>, inward: i128) -> i128 {
    let exact = bound.at.as_i64().map(i128::from);
    let exact = exact.or_else(|| bound.at.as_u64().map(i128::from));
    if let Some(exact) = exact {
        return if bound.excluded { exact + inward } else { exact };
    }
    let at = bound.at.as_f64().unwrap_or(0.0);
    let rounded = if inward > 0 { at.ceil() } else { at.floor() };
    // Far beyond any number that JSON parsers accept, and far from overflow.
    let nearest = rounded.clamp(-1e30, 1e30) as i128;
    if bound.excluded && rounded == at { nearest + inward } else { nearest }
}

/// Returns the smallest integer multiple of a step.
fn integer_step(step: Option<&Number>) -> Option<i128> {
    let Some(step) = step else { return Some(1) };
    if let Some(step) = step.as_u64() {
        return (step > 0).then(|| i128::from(step));
    }
    let step = step.as_f64().filter(|step| *step > 0.0 && *step < 1e15)?;
    let factor = (1..=10_000).find(|factor| (step * f64::from(*factor)).fract() == 0.0)?;
    Some((step * f64::from(factor)) as i128)
}

/// Returns a number within the bounds.
pub(super) fn number(bounds: &Bounds<'_>) -> Option<Value> {
    let all_integers =
        [bounds.minimum.as_ref().map(|b| b.at), bounds.maximum.as_ref().map(|b| b.at), bounds.step]
            .into_iter()
            .flatten()
            .all(|number| !number.is_f64());
    if let Some(value) = all_integers.then(|| integer(bounds)).flatten() {
        return Some(value);
    }
    let edge = |bound: &Bound<'_>| bound.at.as_f64();
    let minimum = bounds.minimum.as_ref().and_then(edge).unwrap_or(f64::NEG_INFINITY);
    let maximum = bounds.maximum.as_ref().and_then(edge).unwrap_or(f64::INFINITY);
    let open = |bound: &Option<Bound<'_>>| bound.as_ref().is_some_and(|b| b.excluded);
    let above = |n: f64| n > minimum || n == minimum && !open(&bounds.minimum);
    let below = |n: f64| n < maximum || n == maximum && !open(&bounds.maximum);
    let found = match bounds.step.and_then(Number::as_f64) {
        Some(step) if step > 0.0 => {
            let near = if minimum > 0.0 { (minimum / step).floor() } else { (maximum / step).ceil() };
            let inward = if minimum > 0.0 { 1.0 } else { -1.0 };
            let steps = [0.0, near, near + inward, near + 2.0 * inward];
            steps.map(|k| k * step).into_iter().find(|n| above(*n) && below(*n))
        }
        _ => {
            let middle = f64::midpoint(minimum, maximum);
            let candidates = [0.0, minimum, maximum, minimum.ceil(), minimum + 1.0, maximum - 1.0, middle];
            candidates.into_iter().find(|n| n.is_finite() && above(*n) && below(*n))
        }
    }?;
    if found.fract() == 0.0 && found.abs() < 1e15 {
        return Some(Value::from(found as i64));
    }
    Number::from_f64(found).map(Value::Number)
}
