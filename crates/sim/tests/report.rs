//! The report: its plots, its page, and that both are the same for the same seed.

use quipu_sim::RunError;
use quipu_sim::report::{
    Cell, Experiment, ReportError, Scale, Table, experiments, index_html, prepare, svg, write,
};
use std::collections::BTreeSet;

/// Those that take only a moment.
fn fast() -> Vec<&'static Experiment> {
    experiments().into_iter().filter(|one| ["retries", "fbf-vs-rbf"].contains(&one.name)).collect()
}

#[test]
fn experiments_have_names_of_their_own_that_can_be_file_names() {
    let names: BTreeSet<&str> = experiments().iter().map(|one| one.name).collect();
    assert_eq!(names.len(), experiments().len());
    let plain =
        |name: &str| name.chars().all(|letter| letter.is_ascii_lowercase() || "-0123456789".contains(letter));
    assert!(names.into_iter().all(plain));
}

#[test]
fn same_seed_same_files() {
    let [one, other, third] = [1, 1, 2].map(|seed| {
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), &fast(), Scale::Quick, seed, &|_, _| true).expect("it can be written");
        let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder.path())
            .expect("the folder")
            .map(|entry| entry.expect("a file"))
            .map(|entry| {
                (entry.file_name().into_string().expect("plain"), std::fs::read(entry.path()).expect("bytes"))
            })
            .collect();
        files.sort();
        files
    });
    assert_eq!(one.len(), 2 * fast().len() + 1);
    assert!(one == other, "the same seed gives the same bytes");
    assert!(one != third, "another seed gives others");
}

/// Whatever a run gives, even nothing, it can be drawn.
#[test]
fn plots_of_odd_tables_are_well_formed() {
    for experiment in experiments() {
        let columns: BTreeSet<&str> = experiment
            .panels
            .iter()
            .flat_map(|panel| panel.series)
            .map(|series| series.column)
            .chain([experiment.x.column])
            .collect();
        let row = |cell: Cell| vec![cell; columns.len()];
        for rows in
            [vec![], vec![row(Cell::Missing)], vec![row(Cell::Rate(0.0))], vec![row(Cell::Count(7)); 2]]
        {
            let mut table = Table::new(columns.iter().copied());
            rows.into_iter().for_each(|row| table.push(row));
            let text = svg(experiment, &table).expect("it can be drawn");
            let plot = roxmltree::Document::parse(&text).expect("well-formed XML");
            let texts: Vec<&str> = plot.descendants().filter_map(|node| node.text()).map(str::trim).collect();
            let panel_labels = experiment.panels.iter().map(|panel| panel.label);
            for label in panel_labels.chain([experiment.title, experiment.x.label]) {
                assert!(texts.contains(&label), "{} does not say {label}", experiment.name);
            }
            (experiment.compare)(&table);
        }
    }
    assert!(index_html(&[], Scale::Full, 1).expect("a page").ends_with("</html>\n"));
}

#[test]
fn a_stopped_run_leaves_no_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let stopped = write(folder.path(), &fast(), Scale::Quick, 1, &|_, _| false);
    assert!(matches!(stopped, Err(ReportError::Run { error: RunError::Stopped, .. })), "{stopped:?}");
    assert!(!folder.path().join("index.html").exists());
}

#[test]
fn a_folder_that_cannot_be_written_is_found_out_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("a file");
    assert!(prepare(&file.join("below")).is_err());
    assert!(prepare(&file).is_err());
    prepare(&folder.path().join("new/and/deep")).expect("it is made");
    assert_eq!(std::fs::read_dir(folder.path().join("new/and/deep")).expect("the folder").count(), 0);
}
