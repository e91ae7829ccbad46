//! Tables as SVG plots. Nothing of the system is needed to draw them.

use super::{Axis, Cell, Experiment, Figure, Mark, Panel, Place, Reference, Spread, Table};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::ops::Range;

/// A plot could not be drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the plot could not be drawn: {0}")]
pub struct PlotError(String);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

/// Sizes in pixels. Small enough a width that letters can be read on a phone.
const WIDTH: u32 = 680;
const TITLE_HEIGHT: u32 = 30;
const PANEL_HEIGHT: u32 = 330;
const LEGEND_ROW_HEIGHT: u32 = 22;
const LEGEND_COLUMNS: usize = 2;
const MARGIN: u32 = 10;

/// Colours that are told apart with any kind of colour vision (Okabe and Ito).
const PALETTE: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(60, 60, 60),
];

/// Lines of the paper's values.
const REFERENCE: RGBColor = RGBColor(110, 110, 110);

/// The plot of an experiment's table.
pub fn svg(experiment: &Experiment, table: &Table) -> Result<String, PlotError> {
    let Experiment { title, x, panels, .. } = experiment;
    draw_figure(&Figure { title, x, panels, references: &(experiment.references)(table) }, table)
}

/// The plot of a table.
pub fn draw_figure(figure: &Figure<'_>, table: &Table) -> Result<String, PlotError> {
    let mut text = String::new();
    let heights: Vec<u32> = (0..figure.panels.len())
        .map(|index| PANEL_HEIGHT + legend_height(&figure.panels[index], index, figure.references))
        .collect();
    let height = TITLE_HEIGHT + heights.iter().sum::<u32>();
    draw(figure, table, &heights, SVGBackend::with_string(&mut text, (WIDTH, height)))
        .map_err(|error| PlotError(error.to_string()))?;
    Ok(text)
}

fn draw(
    figure: &Figure<'_>,
    table: &Table,
    heights: &[u32],
    backend: SVGBackend<'_>,
) -> Result<(), Box<dyn std::error::Error>> {
    let root = backend.into_drawing_area();
    root.fill(&WHITE)?;
    let title = ("sans-serif", 19).into_font().style(FontStyle::Bold);
    let mut rest = root.titled(figure.title, title)?;
    for (index, panel) in figure.panels.iter().enumerate() {
        let (area, below) = rest.split_vertically(heights[index]);
        rest = below;
        let of_panel: Vec<&Reference> =
            figure.references.iter().filter(|reference| reference.panel == index).collect();
        draw_panel(&area, figure.x, panel, &of_panel, table)?;
    }
    root.present()?;
    Ok(())
}

fn legend_height(panel: &Panel, index: usize, references: &[Reference]) -> u32 {
    let of_panel = references.iter().filter(|reference| reference.panel == index).count();
    let rows = (panel.series.len() + of_panel).div_ceil(LEGEND_COLUMNS);
    LEGEND_ROW_HEIGHT * u32::try_from(rows).expect("a few rows")
}

fn draw_panel(
    area: &Area<'_>,
    x: &Axis,
    panel: &Panel,
    references: &[&Reference],
    table: &Table,
) -> Result<(), Box<dyn std::error::Error>> {
    let rows = (panel.series.len() + references.len()).div_ceil(LEGEND_COLUMNS);
    let (legend, chart_area) = area.split_vertically(LEGEND_ROW_HEIGHT * u32::try_from(rows)?);
    draw_legend(&legend, panel, references)?;

    let (x_range, y_range) = ranges(x, panel, references, table);
    let mut chart = ChartBuilder::on(&chart_area)
        .margin(MARGIN)
        .margin_right(2 * MARGIN)
        .x_label_area_size(45)
        .y_label_area_size(75)
        .build_cartesian_2d(x_range.clone(), y_range.clone())?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_labels(8)
        .y_labels(8)
        .x_label_formatter(&|value| tick(*value, x.spread, &x_range))
        .y_label_formatter(&|value| tick(*value, panel.spread, &y_range))
        .label_style(("sans-serif", 15))
        .axis_desc_style(("sans-serif", 16))
        .x_desc(x.label)
        .y_desc(panel.label)
        .draw()?;
    for reference in references {
        draw_reference(&mut chart, reference.place, x, panel, (&x_range, &y_range))?;
    }
    for series in panel.series {
        let points: Vec<(f64, f64)> = table
            .column(x.column)
            .zip(table.column(series.column))
            .filter_map(|(x_cell, y_cell)| {
                Some((position(x_cell, x.spread)?, position(y_cell, panel.spread)?))
            })
            .collect();
        draw_series(&mut chart, points, series.mark, colour(series.colour))?;
    }
    Ok(())
}

fn draw_series(
    chart: &mut Chart<'_, '_>,
    points: Vec<(f64, f64)>,
    mark: Mark,
    colour: RGBColor,
) -> Result<(), Box<dyn std::error::Error>> {
    match mark {
        Mark::Line => {
            chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
        }
        Mark::Dashes => {
            chart.draw_series(DashedLineSeries::new(points, 6, 4, colour.stroke_width(2)))?;
        }
        Mark::Dots => {
            chart.draw_series(points.into_iter().map(|point| Circle::new(point, 2, colour.filled())))?;
        }
    }
    Ok(())
}

fn draw_reference(
    chart: &mut Chart<'_, '_>,
    place: Place,
    x: &Axis,
    panel: &Panel,
    (x_range, y_range): (&Range<f64>, &Range<f64>),
) -> Result<(), Box<dyn std::error::Error>> {
    let ends = match place {
        Place::Across(value) => on_axis(value, panel.spread).map(|y| [(x_range.start, y), (x_range.end, y)]),
        Place::Down(value) => on_axis(value, x.spread).map(|x| [(x, y_range.start), (x, y_range.end)]),
    };
    if let Some(ends) = ends {
        chart.draw_series(DashedLineSeries::new(ends, 3, 4, REFERENCE.stroke_width(1)))?;
    }
    Ok(())
}

/// The legend stands above the diagram, where no curve is.
fn draw_legend(
    area: &Area<'_>,
    panel: &Panel,
    references: &[&Reference],
) -> Result<(), Box<dyn std::error::Error>> {
    let series = panel.series.iter().map(|series| (series.label, series.mark, colour(series.colour)));
    let lines = references.iter().map(|reference| (reference.label.as_str(), Mark::Dashes, REFERENCE));
    let column_width = i32::try_from(WIDTH - 3 * MARGIN)? / i32::try_from(LEGEND_COLUMNS)?;
    for (index, (label, mark, colour)) in series.chain(lines).enumerate() {
        let (row, column) = (i32::try_from(index / LEGEND_COLUMNS)?, i32::try_from(index % LEGEND_COLUMNS)?);
        let left = 2 * i32::try_from(MARGIN)? + column * column_width;
        let middle = row * i32::try_from(LEGEND_ROW_HEIGHT)? + 10;
        match mark {
            Mark::Line => {
                area.draw(&PathElement::new([(left, middle), (left + 24, middle)], colour.stroke_width(2)))?;
            }
            Mark::Dashes => {
                for start in [left, left + 9, left + 18] {
                    let dash = [(start, middle), (start + 6, middle)];
                    area.draw(&PathElement::new(dash, colour.stroke_width(2)))?;
                }
            }
            Mark::Dots => area.draw(&Circle::new((left + 12, middle), 3, colour.filled()))?,
        }
        area.draw(&Text::new(label.to_owned(), (left + 30, middle - 8), ("sans-serif", 15)))?;
    }
    Ok(())
}

fn colour(index: usize) -> RGBColor {
    PALETTE[index % PALETTE.len()]
}

fn position(cell: Cell, spread: Spread) -> Option<f64> {
    on_axis(cell.value()?, spread)
}

fn on_axis(value: f64, spread: Spread) -> Option<f64> {
    match spread {
        Spread::Linear => Some(value),
        Spread::Log => (value > 0.0).then(|| value.log10()),
    }
    .filter(|value| value.is_finite())
}

/// From the least to the most that is to be seen.
fn ranges(x: &Axis, panel: &Panel, references: &[&Reference], table: &Table) -> (Range<f64>, Range<f64>) {
    let across = references.iter().filter_map(|reference| match reference.place {
        Place::Across(value) => on_axis(value, panel.spread),
        Place::Down(_) => None,
    });
    let columns = panel.series.iter().flat_map(|series| table.column(series.column));
    let ys = columns.filter_map(|cell| position(cell, panel.spread)).chain(across);
    let xs = table.column(x.column).filter_map(|cell| position(cell, x.spread));
    (range(xs, x.spread), range(ys, panel.spread))
}

fn range(values: impl Iterator<Item = f64>, spread: Spread) -> Range<f64> {
    let (least, most) =
        values.fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)));
    let (least, most) = if least > most { (0.0, 1.0) } else { (least, most) };
    let least = if spread == Spread::Linear { least.min(0.0) } else { least };
    let space = (most - least).max(1e-9) * 0.04;
    let below = if spread == Spread::Linear && least == 0.0 { 0.0 } else { space };
    least - below..most + space
}

/// A number at the axis, as short as can be.
fn tick(value: f64, spread: Spread, range: &Range<f64>) -> String {
    match spread {
        Spread::Linear if range.end - range.start > 5.0 => format!("{value:.0}"),
        Spread::Linear => format!("{value:.2}"),
        Spread::Log if (value - value.round()).abs() < 1e-6 => match value.round() {
            exponent if (0.0..4.0).contains(&exponent) => format!("{:.0}", 10f64.powf(exponent)),
            exponent => format!("1e{exponent:.0}"),
        },
        Spread::Log if value > 0.0 => format!("{:.0}", 10f64.powf(value)),
        Spread::Log => format!("{:.1e}", 10f64.powf(value)),
    }
}
