//! Bar charts as SVG, one below the other. Nothing of the system is needed to draw them.

use super::compare::Spread;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Context<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Sizes in pixels. Small enough a width that letters can be read on a phone.
const WIDTH: u32 = 680;
const CHART_HEIGHT: u32 = 320;
const MARGIN: u32 = 10;
const GROUP_LABEL_HEIGHT: u32 = 30;
const AXIS_WIDTH: u32 = 90;
const LEGEND_HEIGHT: u32 = 24;

/// Colours that are told apart with any kind of colour vision (Okabe and Ito).
const PALETTE: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// The share of a group's width that its bars take.
const BARS_SHARE: f64 = 0.7;

pub(super) struct Chart {
    pub(super) title: String,
    /// What stands beside the vertical axis, with the unit.
    pub(super) label: String,
    /// The names of the bars in every group.
    pub(super) series: Vec<String>,
    /// A label, and a bar for each series; nothing where nothing was measured.
    pub(super) groups: Vec<(String, Vec<Option<Bar>>)>,
}

/// How high, and from where to where it varied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bar {
    height: f64,
    least: f64,
    most: f64,
}

impl Bar {
    /// Of something that does not vary.
    pub(super) fn exactly(height: f64) -> Self {
        Bar { height, least: height, most: height }
    }
}

impl From<Spread> for Bar {
    fn from(Spread { median, least, most }: Spread) -> Self {
        Bar { height: median, least, most }
    }
}

/// A chart could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("the chart could not be drawn: {0}")]
pub(super) struct ChartError(String);

pub(super) fn svg(charts: &[Chart]) -> Result<String, ChartError> {
    let mut text = String::new();
    let height = CHART_HEIGHT * u32::try_from(charts.len()).unwrap_or(1);
    draw(charts, SVGBackend::with_string(&mut text, (WIDTH, height)))
        .map_err(|error| ChartError(error.to_string()))?;
    Ok(text)
}

fn draw(charts: &[Chart], backend: SVGBackend<'_>) -> Result<(), Box<dyn std::error::Error>> {
    let root = backend.into_drawing_area();
    root.fill(&WHITE)?;
    for (chart, area) in charts.iter().zip(root.split_evenly((charts.len(), 1))) {
        draw_chart(chart, &area, &root)?;
    }
    root.present()?;
    Ok(())
}

fn draw_chart(chart: &Chart, area: &Area<'_>, root: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
    let title = ("sans-serif", 19).into_font().style(FontStyle::Bold);
    let area = area.titled(&chart.title, title)?;
    let (legend, area) = area.split_vertically(LEGEND_HEIGHT);
    draw_legend(&legend, &chart.series)?;
    let all = chart.groups.iter().flat_map(|(_, bars)| bars.iter().flatten());
    let highest = all.map(|bar| bar.most).fold(0.0, f64::max);
    let top = if highest > 0.0 { highest * 1.05 } else { 1.0 };
    let mut context = ChartBuilder::on(&area)
        .margin(MARGIN)
        .x_label_area_size(GROUP_LABEL_HEIGHT)
        .y_label_area_size(AXIS_WIDTH)
        .build_cartesian_2d(0.0..chart.groups.len().max(1) as f64, 0.0..top)?;
    context
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_labels(0)
        .y_labels(8)
        .y_label_formatter(&|value| tick(*value, top))
        .label_style(("sans-serif", 15))
        .axis_desc_style(("sans-serif", 16))
        .y_desc(chart.label.as_str())
        .draw()?;
    for (index, (label, bars)) in chart.groups.iter().enumerate() {
        draw_group(&mut context, index as f64, bars)?;
        let (x, y) = context.backend_coord(&(index as f64 + 0.5, 0.0));
        let style = TextStyle::from(("sans-serif", 15)).pos(Pos::new(HPos::Center, VPos::Top));
        root.draw(&Text::new(label.clone(), (x, y + 6), style))?;
    }
    Ok(())
}

fn draw_group(
    context: &mut Context<'_, '_>,
    left: f64,
    bars: &[Option<Bar>],
) -> Result<(), Box<dyn std::error::Error>> {
    let width = BARS_SHARE / bars.len().max(1) as f64;
    for (index, bar) in bars.iter().enumerate() {
        let Some(Bar { height, least, most }) = *bar else { continue };
        let start = left + (1.0 - BARS_SHARE) / 2.0 + index as f64 * width;
        let middle = start + width / 2.0;
        let colour = PALETTE[index % PALETTE.len()];
        let corners = [(start, 0.0), (start + width * 0.94, height)];
        context.draw_series([Rectangle::new(corners, colour.filled())])?;
        context.draw_series([PathElement::new([(middle, least), (middle, most)], BLACK.stroke_width(2))])?;
    }
    Ok(())
}

/// The legend stands above the bars.
fn draw_legend(area: &Area<'_>, series: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let column_width = i32::try_from((WIDTH - AXIS_WIDTH) / u32::try_from(series.len().max(1))?)?;
    for (index, name) in series.iter().enumerate() {
        let left = i32::try_from(AXIS_WIDTH)? + i32::try_from(index)? * column_width;
        let colour = PALETTE[index % PALETTE.len()];
        area.draw(&Rectangle::new([(left, 4), (left + 14, 18)], colour.filled()))?;
        area.draw(&Text::new(name.clone(), (left + 20, 3), ("sans-serif", 15)))?;
    }
    Ok(())
}

fn tick(value: f64, top: f64) -> String {
    match top {
        _ if top > 10_000.0 => format!("{:.0}k", value / 1_000.0),
        _ if top > 20.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}
