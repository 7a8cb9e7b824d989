//! Rows of tables, which is what kubectl asks for.

use super::list::Listed;
use jiff::Timestamp;
use serde_json::{Value, json};

const UNKNOWN: &str = "<unknown>";

/// The columns of a table.
pub(super) fn columns() -> [Value; 3] {
    let column = |name: &str, format: &str, description: &str| json!({"name": name, "type": "string", "format": format, "description": description, "priority": 0});
    [
        column("Name", "name", "Name of the package"),
        column("Catalog", "", "Display name of the catalog that has the package"),
        column("Age", "", "Since when the catalog exists"),
    ]
}

/// What stands in them. Ages count until `now`.
pub(super) fn cells(listed: &Listed, now: Timestamp) -> [String; 3] {
    let catalog = &*listed.catalog;
    let age = catalog.created.map_or_else(|| UNKNOWN.to_owned(), |created| age(now.as_second() - created.as_second()));
    [listed.name().to_owned(), catalog.display_name.clone(), age]
}

/// A time as kubectl shows it: two units at most, the smaller only while the larger is small. Negative times are 0.
fn age(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let two = |large: i64, unit: &str, small: i64, other: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{other}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_of_kubectl() {
        let (minute, hour, day) = (60, 3_600, 86_400);
        for (seconds, expected) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * minute, "2m"),
            (2 * minute + 1, "2m1s"),
            (10 * minute, "10m"),
            (3 * hour - 1, "179m"),
            (3 * hour, "3h"),
            (3 * hour + 5 * minute, "3h5m"),
            (8 * hour, "8h"),
            (2 * day - 1, "47h"),
            (2 * day, "2d"),
            (2 * day + hour, "2d1h"),
            (8 * day, "8d"),
            (730 * day - 1, "729d"),
            (730 * day, "2y"),
            (731 * day, "2y1d"),
            (8 * 365 * day, "8y"),
        ] {
            assert_eq!(age(seconds), expected, "{seconds}");
        }
    }
}
