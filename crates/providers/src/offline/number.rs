//! Numbers that keep to a schema's bounds: nought where it may be, else what is next to a bound.

use serde_json::{Map, Number, Value};

/// What a schema says of a number.
#[derive(Debug, Default)]
pub(super) struct Bounds<'a> {
    least: Option<Bound<'a>>,
    most: Option<Bound<'a>>,
    step: Option<&'a Number>,
}

#[derive(Debug)]
struct Bound<'a> {
    at: &'a Number,
    excluded: bool,
}

impl<'a> Bounds<'a> {
    /// Reads the bounds of a schema.
    pub(super) fn of(schema: &'a Map<String, Value>) -> Self {
        Self {
            least: bound(schema, "minimum", "exclusiveMinimum", |a, b| a > b),
            most: bound(schema, "maximum", "exclusiveMaximum", |a, b| a < b),
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
    // The oldest drafts say `true` beside the inclusive bound.
    let flagged = schema.get(exclusive_key) == Some(&Value::Bool(true));
    let included = included.map(|at| Bound { at, excluded: flagged });
    let excluded = schema.get(exclusive_key).and_then(number_of);
    let excluded = excluded.map(|at| Bound { at, excluded: true });
    match (included, excluded) {
        (Some(a), Some(b)) if tighter(a.at.as_f64(), b.at.as_f64()) => Some(a),
        (a, b) => b.or(a),
    }
}

/// Makes a whole number.
pub(super) fn integer(bounds: &Bounds<'_>) -> Option<Value> {
    let least = bounds.least.as_ref().map_or(i128::from(i64::MIN), |b| whole(b, 1));
    let most = bounds.most.as_ref().map_or(i128::from(u64::MAX), |b| whole(b, -1));
    let fits = |n: i128| (least..=most).contains(&n);
    let step = whole_step(bounds.step)?;
    let up = least.div_euclid(step) * step;
    let candidates = [0, up, up.checked_add(step)?, most.div_euclid(step) * step];
    // Of the candidates above nought the first is nearest to it, of those below the last.
    let found = if most < 0 {
        candidates.into_iter().rev().find(|n| fits(*n))
    } else {
        candidates.into_iter().find(|n| fits(*n))
    }?;
    let unsigned = u64::try_from(found).map(Value::from);
    unsigned.or_else(|_| i64::try_from(found).map(Value::from)).ok()
}

/// Returns the whole number at a bound or next to it, on the side of `inward`.
fn whole(bound: &Bound<'_>, inward: i128) -> i128 {
    let exact = bound.at.as_i64().map(i128::from);
    let exact = exact.or_else(|| bound.at.as_u64().map(i128::from));
    if let Some(exact) = exact {
        return if bound.excluded { exact + inward } else { exact };
    }
    let at = bound.at.as_f64().unwrap_or(0.0);
    let rounded = if inward > 0 { at.ceil() } else { at.floor() };
    // Far beyond any number that JSON readers take, and far from overflow.
    let nearest = rounded.clamp(-1e30, 1e30) as i128;
    if bound.excluded && rounded == at { nearest + inward } else { nearest }
}

/// Returns the smallest whole multiple of a step.
fn whole_step(step: Option<&Number>) -> Option<i128> {
    let Some(step) = step else { return Some(1) };
    if let Some(step) = step.as_u64() {
        return (step > 0).then(|| i128::from(step));
    }
    let step = step.as_f64().filter(|step| *step > 0.0 && *step < 1e15)?;
    let factor = (1..=10_000).find(|factor| (step * f64::from(*factor)).fract() == 0.0)?;
    Some((step * f64::from(factor)) as i128)
}

/// Makes any number.
pub(super) fn number(bounds: &Bounds<'_>) -> Option<Value> {
    let all_whole = [bounds.least.as_ref().map(|b| b.at), bounds.most.as_ref().map(|b| b.at), bounds.step]
        .into_iter()
        .flatten()
        .all(|number| !number.is_f64());
    if let Some(value) = all_whole.then(|| integer(bounds)).flatten() {
        return Some(value);
    }
    let edge = |bound: &Bound<'_>| bound.at.as_f64();
    let least = bounds.least.as_ref().and_then(edge).unwrap_or(f64::NEG_INFINITY);
    let most = bounds.most.as_ref().and_then(edge).unwrap_or(f64::INFINITY);
    let open = |bound: &Option<Bound<'_>>| bound.as_ref().is_some_and(|b| b.excluded);
    let above = |n: f64| n > least || n == least && !open(&bounds.least);
    let below = |n: f64| n < most || n == most && !open(&bounds.most);
    let found = match bounds.step.and_then(Number::as_f64) {
        Some(step) if step > 0.0 => {
            let near = if least > 0.0 { (least / step).floor() } else { (most / step).ceil() };
            let inward = if least > 0.0 { 1.0 } else { -1.0 };
            let steps = [0.0, near, near + inward, near + 2.0 * inward];
            steps.map(|k| k * step).into_iter().find(|n| above(*n) && below(*n))
        }
        _ => {
            let middle = f64::midpoint(least, most);
            let candidates = [0.0, least, most, least.ceil(), least + 1.0, most - 1.0, middle];
            candidates.into_iter().find(|n| n.is_finite() && above(*n) && below(*n))
        }
    }?;
    if found.fract() == 0.0 && found.abs() < 1e15 {
        return Some(Value::from(found as i64));
    }
    Number::from_f64(found).map(Value::Number)
}
