//! Rules of constraints in the Common Expression Language, over the properties of a bundle: compiled once, and evaluated where what
//! they may cost is bounded.

use crate::error::shortened;
use crate::version::{parse_tolerant, precedence};
use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use cel::{Context, Program, Value};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Signs outside of quoted texts that a rule may have. Each can make it one level deeper.
const MAX_SIGNS: usize = 1_000;
/// Levels of a rule.
const MAX_DEPTH: usize = 100;
/// Steps that a rule may take.
const MAX_COST: u64 = 1_000_000;
/// Steps that a regular expression counts as, since it is compiled each time.
const COST_OF_REGEX: u64 = 1_000;
/// Bytes of the message of a parser.
const MAX_MESSAGE: usize = 300;
const REGEX: &str = "matches";
/// Operators and functions whose result is a bool.
const BOOL: [&str; 17] = [
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::IN,
    operators::NOT_STRICTLY_FALSE,
    "bool",
    "contains",
    "startsWith",
    "endsWith",
    REGEX,
    operators::HAS,
];
/// Functions and operators whose result is something else.
const NOT_BOOL: [&str; 12] = [
    operators::SUBSTRACT,
    operators::ADD,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::NEGATE,
    COMPARE,
    "size",
    "string",
    "int",
    "uint",
    "double",
];
/// Compares versions: -1, 0 or 1.
const COMPARE: &str = "semver_compare";

/// Why a text is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RuleError {
    #[error("it must be set, such as properties.exists(p, p.type == \"certified\")")]
    Empty,
    #[error("it is no expression: {0}")]
    Syntax(String),
    #[error("it has {0} signs, and {MAX_SIGNS} may be: split it into several constraints under all or any")]
    Signs(usize),
    #[error("it is nested deeper than {MAX_DEPTH} levels: split it into several constraints under all or any")]
    Depth,
    #[error("cel expressions must have type Bool: compare its result with something")]
    NotBool,
}

/// Why a rule has no verdict on a bundle, which then does not match.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EvaluationError {
    #[error("it may take {0} steps, and {MAX_COST} are allowed: loop over fewer properties within each other")]
    Cost(u64),
    #[error("its result is {0} and no bool")]
    NotBool(String),
    #[error("{0}")]
    Failed(String),
}

/// What rules see besides properties. Empty where it is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClusterVersions {
    pub kubernetes: String,
    pub release: String,
}

/// A compiled rule. Rules with the same text are equal.
#[derive(Clone)]
pub(crate) struct Rule {
    text: Arc<str>,
    program: Arc<Program>,
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rule").field(&self.text).finish()
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Rule {
    pub(crate) fn compile(text: &str) -> Result<Self, RuleError> {
        if text.trim().is_empty() {
            return Err(RuleError::Empty);
        }
        let signs = signs(text);
        if signs > MAX_SIGNS {
            return Err(RuleError::Signs(signs));
        }
        let program = Program::compile(text).map_err(|error| syntax(&error))?;
        if depth(program.expression()) > MAX_DEPTH {
            return Err(RuleError::Depth);
        }
        if is_bool(program.expression()) == Some(false) {
            return Err(RuleError::NotBool);
        }
        Ok(Rule { text: text.into(), program: Arc::new(program) })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it holds for a bundle with these properties.
    pub(crate) fn holds(&self, properties: &Properties) -> Result<bool, EvaluationError> {
        let cost = cost(self.program.expression(), properties.size);
        if cost > MAX_COST {
            return Err(EvaluationError::Cost(cost));
        }
        match self.program.execute(&properties.context) {
            Ok(Value::Bool(holds)) => Ok(holds),
            Ok(other) => Err(EvaluationError::NotBool(format!("of type {}", other.type_of()))),
            Err(error) => Err(EvaluationError::Failed(error.to_string())),
        }
    }
}

/// The properties of a bundle as rules see them.
pub(crate) struct Properties {
    context: Context<'static, 'static>,
    /// Parts that they have: no loop over one of them has more turns.
    size: u64,
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Properties").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Properties {
    /// `properties`: type and value of each.
    pub(crate) fn new<'a>(
        properties: impl IntoIterator<Item = (&'a str, &'a serde_json::Value)>,
        cluster: &ClusterVersions,
    ) -> Self {
        let (mut size, mut list) = (0, Vec::new());
        for (kind, value) in properties {
            size += 1;
            list.push(map([("type", Value::from(kind)), ("value", converted(value, &mut size))]));
        }
        let mut context = Context::default();
        context.add_variable_from_value("properties", list);
        let versions = [("kubernetesVersion", &cluster.kubernetes), ("releaseVersion", &cluster.release)];
        context
            .add_variable_from_value("cluster", map(versions.map(|(name, text)| (name, Value::from(text.as_str())))));
        // The name is free, so that it is taken.
        let _ = context.add_function(COMPARE, compare);
        Properties { context, size }
    }
}

fn map<const N: usize>(members: [(&str, Value); N]) -> Value {
    std::collections::HashMap::<String, Value>::from(members.map(|(name, value)| (name.to_owned(), value))).into()
}

fn converted(value: &serde_json::Value, size: &mut u64) -> Value {
    *size += 1;
    match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(value) => Value::Bool(*value),
        serde_json::Value::Number(value) => match value.as_i64() {
            Some(value) => Value::Int(value),
            None => Value::Float(value.as_f64().unwrap_or_default()),
        },
        serde_json::Value::String(text) => {
            *size += text.len() as u64 / 64;
            Value::from(text.as_str())
        }
        serde_json::Value::Array(values) => {
            values.iter().map(|value| converted(value, size)).collect::<Vec<_>>().into()
        }
        serde_json::Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), converted(value, size)));
            members.collect::<std::collections::HashMap<_, _>>().into()
        }
    }
}

fn compare(one: Value, other: Value) -> Result<i64, cel::ExecutionError> {
    let version = |value: &Value| {
        let text = match value {
            Value::String(text) => text.to_string(),
            Value::Int(number) => number.to_string(),
            Value::UInt(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            other => format!("a {}", other.type_of()),
        };
        parse_tolerant(&text).map_err(|error| cel::ExecutionError::function_error(COMPARE, error))
    };
    Ok(match precedence(&version(&one)?, &version(&other)?) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    })
}

/// The first of the errors, and where it is.
fn syntax(errors: &cel::ParseErrors) -> RuleError {
    let of = |error: &cel::ParseError| format!("{} at {}:{}", error.msg, error.pos.0, error.pos.1);
    let first = errors.errors.first().map_or_else(|| errors.to_string(), of);
    RuleError::Syntax(shortened(&first, MAX_MESSAGE).into_owned())
}

/// Signs outside of quoted texts, but for commas, blanks and what names consist of.
fn signs(text: &str) -> usize {
    let (mut signs, mut quote, mut escaped) = (0, None, false);
    for c in text.chars() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(mark) if c == mark => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None => signs += usize::from(!c.is_alphanumeric() && !c.is_whitespace() && c != '_' && c != ','),
        }
    }
    signs
}

fn children(expr: &IdedExpr) -> Vec<&IdedExpr> {
    match &expr.expr {
        Expr::Call(call) => call.target.iter().map(|target| &**target).chain(&call.args).collect(),
        Expr::Comprehension(it) => vec![&it.iter_range, &it.accu_init, &it.loop_cond, &it.loop_step, &it.result],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|entry| of_entry(&entry.expr)).collect(),
        Expr::Struct(it) => it.entries.iter().flat_map(|entry| of_entry(&entry.expr)).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
    }
}

fn of_entry(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

/// Level by level, since a rule may be too deep for anything else.
fn depth(expr: &IdedExpr) -> usize {
    let (mut level, mut depth) = (vec![expr], 0);
    while !level.is_empty() {
        level = level.into_iter().flat_map(children).collect();
        depth += 1;
    }
    depth
}

/// Whether the result is a bool, as far as that can be known before.
fn is_bool(expr: &IdedExpr) -> Option<bool> {
    match &expr.expr {
        Expr::Literal(LiteralValue::Boolean(_)) => Some(true),
        Expr::Literal(_) | Expr::List(_) | Expr::Map(_) | Expr::Struct(_) => Some(false),
        Expr::Select(select) if select.test => Some(true),
        Expr::Call(call) if BOOL.contains(&call.func_name.as_str()) => Some(true),
        Expr::Call(call) if NOT_BOOL.contains(&call.func_name.as_str()) => Some(false),
        Expr::Call(call) if call.func_name == operators::CONDITIONAL => {
            let results: Vec<_> = call.args.iter().skip(1).map(is_bool).collect();
            if results.contains(&Some(false)) { Some(false) } else { results.into_iter().next().flatten() }
        }
        Expr::Comprehension(it) => match is_bool(&it.result) {
            None => is_bool(&it.accu_init),
            known => known,
        },
        _ => None,
    }
}

/// Steps at most, where what is looped over has `size` parts.
fn cost(expr: &IdedExpr, size: u64) -> u64 {
    let of = |expr: &IdedExpr| cost(expr, size);
    let all = |exprs: &[&IdedExpr]| exprs.iter().fold(1_u64, |sum, expr| sum.saturating_add(of(expr)));
    match &expr.expr {
        Expr::Comprehension(it) => {
            let turns = match &it.iter_range.expr {
                Expr::List(list) => list.elements.len() as u64,
                _ => size.max(1),
            };
            let once = all(&[&it.loop_cond, &it.loop_step]);
            turns.saturating_mul(once).saturating_add(all(&[&it.iter_range, &it.accu_init, &it.result]))
        }
        Expr::Call(call) if call.func_name == REGEX => all(&children(expr)).saturating_add(COST_OF_REGEX),
        _ => all(&children(expr)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn properties() -> Properties {
        let all = [
            ("olm.package", json!({"packageName": "foo", "version": "1.0.0"})),
            ("certified", json!(true)),
            ("stable", json!(null)),
            ("size", json!({"cpu": 4, "share": 0.5, "zones": ["a", "b"]})),
        ];
        let versions = ClusterVersions { kubernetes: "v1.36.1".to_owned(), release: "5.0.1".to_owned() };
        Properties::new(all.iter().map(|(kind, value)| (*kind, value)), &versions)
    }

    fn holds(rule: &str) -> Result<bool, EvaluationError> {
        Rule::compile(rule).unwrap().holds(&properties())
    }

    #[test]
    fn rules_see_type_and_value_of_each_property() {
        for (rule, expected) in [
            ("properties.exists(p, p.type == \"certified\")", true),
            ("properties.exists(p, p.type == \"certified\") && properties.exists(p, p.type == \"stable\")", true),
            ("properties.exists(p, p.type == \"red\")", false),
            (
                "properties.exists(p, p.type == \"olm.package\" && p.value.packageName == \"foo\" && \
                 semver_compare(p.value.version, \"1.0.0\") == 0)",
                true,
            ),
            ("properties.all(p, p.type != \"red\")", true),
            ("properties.exists_one(p, p.type == \"certified\")", true),
            ("properties.map(p, p.type) == [\"olm.package\", \"certified\", \"stable\", \"size\"]", true),
            ("properties.filter(p, p.type == \"size\" && has(p.value.cpu)).size() == 1", true),
            ("properties.exists(p, p.type == \"size\" && p.value.cpu == 4 && p.value.share < 1.0)", true),
            ("properties.exists(p, p.type == \"size\" && p.value.cpu >= 3.5)", true),
            ("properties.exists(p, p.type == \"size\" && \"b\" in p.value.zones)", true),
            ("properties.exists(p, p.type.matches(\"^cert\"))", true),
            ("true", true),
        ] {
            assert_eq!(holds(rule), Ok(expected), "{rule}");
        }
    }

    #[test]
    fn rules_see_the_versions_of_the_cluster() {
        for (rule, expected) in [
            ("semver_compare(cluster.kubernetesVersion, \"1.36\") >= 0", true),
            ("semver_compare(cluster.releaseVersion, \"5.1.0\") >= 0", false),
            ("cluster.releaseVersion == \"5.0.1\"", true),
        ] {
            assert_eq!(holds(rule), Ok(expected), "{rule}");
        }
    }

    #[test]
    fn versions_are_compared_as_people_write_them() {
        for (one, other, expected) in [("\"v1.0\"", "\"1.0.0\"", 0), ("1", "\"2\"", -1), ("\"1.10\"", "1.9", 1)] {
            assert_eq!(holds(&format!("semver_compare({one}, {other}) == {expected}")), Ok(true), "{one} {other}");
        }
        let error = holds("semver_compare(\"one\", \"1.0.0\") == 0").unwrap_err();
        assert!(error.to_string().contains("\"one\""), "{error}");
    }

    #[test]
    fn text_that_is_no_rule_is_refused_with_its_cause() {
        for (rule, expected) in [
            ("  ", "must be set"),
            ("properties.exists(", "no expression"),
            ("\"yes\"", "must have type Bool"),
            ("1 + 1", "must have type Bool"),
            ("semver_compare(\"1\", \"2\")", "must have type Bool"),
            ("properties.map(p, p.type)", "must have type Bool"),
            ("properties.size()", "must have type Bool"),
            ("true ? \"a\" : \"b\"", "must have type Bool"),
            (&format!("{}true", "!".repeat(2_000)), "2000 signs"),
            (&format!("true{}", " == true".repeat(300)), "levels"),
            (&format!("{}true{}", "(".repeat(300), ")".repeat(300)), "ecursion limit"),
        ] {
            let error = Rule::compile(rule).unwrap_err().to_string();
            assert!(error.contains(expected), "{rule}: {error}");
        }
        let long = format!("properties.exists(p, p.type == \"{}\")", "((((!!!!".repeat(10_000));
        assert_eq!(holds(&long), Ok(false), "what stands in quotes does not count");
    }

    #[test]
    fn rule_without_a_verdict_says_why() {
        for (rule, expected) in [
            ("properties[0].value.packageName", "no bool"),
            ("properties[0].value.version > 5", "overload"),
            ("properties[9].type == \"a\"", "ndex"),
            ("unknown == 1", "unknown"),
            ("nothing(1) == 1", "nothing"),
        ] {
            let error = holds(rule).unwrap_err().to_string();
            assert!(error.contains(expected), "{rule}: {error}");
        }
    }

    #[test]
    fn rule_that_may_take_too_long_is_not_evaluated() {
        let many: Vec<_> = (0..200).map(|number| (format!("p{number}"), json!(number))).collect();
        let properties =
            Properties::new(many.iter().map(|(kind, value)| (kind.as_str(), value)), &ClusterVersions::default());
        let loops = |count: usize| {
            let open: String = (0..count).map(|at| format!("properties.all(p{at}, ")).collect();
            Rule::compile(&format!("{open}true{}", ")".repeat(count))).unwrap()
        };
        assert_eq!(loops(2).holds(&properties), Ok(true));
        let error = loops(4).holds(&properties).unwrap_err();
        assert!(matches!(error, EvaluationError::Cost(_)), "{error}");
        let fixed =
            Rule::compile("[1, 2].all(a, [1, 2].all(b, [1, 2].all(c, [1, 2].all(d, a + b + c + d > 3))))").unwrap();
        assert_eq!(fixed.holds(&properties), Ok(true), "lists that are written out have as many turns as members");
    }
}
