//! The published figures of a set of small client changes, of which this is one; measured through SQL.

/// `name metric old old_spread_pct new new_spread_pct delta_pct note`, tab-separated.
const TABLE: &str = include_str!("../../published/txn-exec.tsv");

/// The published change of a metric, where the same operation was measured through SQL.
pub(super) fn delta(cell: &super::Cell, metric: &str) -> Option<String> {
    let name = format!("KV/{:?}/SQL/rows={}-10", cell.operation, cell.rows);
    let mut rows = TABLE
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>());
    let row = rows.find(|row| row[..2] == [name.as_str(), metric])?;
    match row.get(6)? {
        &"~" => Some("~".to_owned()),
        delta => Some(format!("{delta}%")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cell;
    use super::delta;

    #[test]
    fn each_published_row_is_found_and_no_other() {
        let metrics = ["time_per_op_us", "alloc_bytes_per_op", "allocs_per_op"];
        let found = |metric| Cell::all().filter_map(|cell| delta(&cell, metric)).count();
        assert_eq!(metrics.map(found), [8, 8, 8]);
        let scan = Cell::all().next().expect("there are some");
        assert_eq!(delta(&scan, "allocs_per_op").as_deref(), Some("-11.43%"));
    }
}
