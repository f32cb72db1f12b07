//! Speed-up curves as an SVG picture: one chart a program, both axes logarithmic.

use plotters::coord::Shift;
use plotters::prelude::*;
use std::error::Error;

/// The speed-ups of a program on a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The machine, for the legend.
    pub name: String,
    /// Ranks and speed-ups.
    pub points: Vec<(u32, f64)>,
}

/// A program's chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What stands above it.
    pub title: String,
    /// One a machine.
    pub curves: Vec<Curve>,
    /// What somebody else measured, and on how many ranks: shown as a cross.
    pub measured: Option<(u32, f64)>,
}

/// Width and height of a chart.
const SIZE: (u32, u32) = (560, 520);
const FONT: &str = "sans-serif";
/// Colours of curves, which people who see few colours can tell apart too (those of Okabe and Ito); then they
/// begin again.
const COLORS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];
/// The least that the axis of speed-ups shows.
const LEAST: f64 = 0.5;

/// Draws the charts side by side. `measured` is the legend of their crosses.
///
/// # Errors
/// What the library that draws says; there is nothing that a user could do better.
pub fn svg(charts: &[Chart], measured: &str) -> Result<String, String> {
    let mut text = String::new();
    let width = SIZE.0 * u32::try_from(charts.len().max(1)).unwrap_or(1);
    draw(charts, measured, SVGBackend::with_string(&mut text, (width, SIZE.1)))
        .map_err(|error| error.to_string())?;
    Ok(text)
}

fn draw(charts: &[Chart], measured: &str, backend: SVGBackend<'_>) -> Result<(), Box<dyn Error>> {
    let root = backend.into_drawing_area();
    root.fill(&WHITE)?;
    for (chart, area) in charts.iter().zip(root.split_evenly((1, charts.len().max(1)))) {
        draw_chart(chart, measured, &area)?;
    }
    Ok(root.present()?)
}

fn draw_chart(
    chart: &Chart,
    measured: &str,
    area: &DrawingArea<SVGBackend<'_>, Shift>,
) -> Result<(), Box<dyn Error>> {
    let all = || chart.curves.iter().flat_map(|curve| &curve.points);
    let most = f64::from(all().map(|point| point.0).chain(chart.measured.map(|m| m.0)).max().unwrap_or(1));
    let most = most.max(2.0);
    let mut context = ChartBuilder::on(area)
        .caption(&chart.title, (FONT, 18))
        .margin(14)
        .x_label_area_size(40)
        .y_label_area_size(48)
        .build_cartesian_2d((1.0..most).log_scale().base(2.0), (LEAST..most).log_scale().base(2.0))?;
    context
        .configure_mesh()
        .x_desc("ranks")
        .y_desc("speed-up")
        .x_label_formatter(&whole)
        .y_label_formatter(&whole)
        .light_line_style(WHITE)
        .draw()?;
    let ideal = LineSeries::new([(1.0, 1.0), (most, most)], BLACK.mix(0.3));
    context.draw_series(ideal)?.label("linear").legend(|at| key(at, BLACK.mix(0.3)));
    for (curve, color) in chart.curves.iter().zip(COLORS.iter().cycle().map(Color::to_rgba)) {
        let points: Vec<(f64, f64)> = curve.points.iter().map(|&(n, speed)| (f64::from(n), speed)).collect();
        let dots = points.iter().map(|&point| Circle::new(point, 2, color.filled()));
        context.draw_series(dots)?;
        context
            .draw_series(LineSeries::new(points, color.stroke_width(2)))?
            .label(&curve.name)
            .legend(move |at| key(at, color));
    }
    if let Some((ranks, speed)) = chart.measured {
        let cross = Cross::new((f64::from(ranks), speed), 6, BLACK.stroke_width(2));
        context
            .draw_series([cross])?
            .label(measured)
            .legend(|(x, y)| Cross::new((x + 10, y), 5, BLACK.stroke_width(2)));
    }
    context
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .label_font((FONT, 13))
        .draw()?;
    Ok(())
}

/// A number on an axis, which mostly is a whole one.
fn whole(number: &f64) -> String {
    number.to_string()
}

/// A curve's line in the legend.
fn key((x, y): (i32, i32), color: RGBAColor) -> PathElement<(i32, i32)> {
    PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_every_chart_curve_and_cross() {
        let curve = |name: &str| Curve { name: name.to_owned(), points: vec![(1, 1.0), (2, 1.9), (4, 3.5)] };
        let chart = |title: &str, measured| Chart {
            title: title.to_owned(),
            curves: vec![curve("ethernet"), curve("myrinet")],
            measured,
        };
        let text = svg(&[chart("LAPLACE", Some((64, 28.4))), chart("LU", None)], "the paper").unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{text}");
        let count = |what: &str| text.matches(what).count();
        assert_eq!(["LAPLACE", "LU", "the paper"].map(count), [1, 1, 1], "{text}");
        assert_eq!(["ethernet", "myrinet", "linear"].map(count), [2, 2, 2], "{text}");
        assert_eq!(count("<circle"), 2 * 2 * 3);
        assert!(text.contains("\n64\n"), "{text}");
    }

    #[test]
    fn there_need_not_be_anything_to_show() {
        assert!(svg(&[], "").is_ok());
        let empty = Chart { title: "nothing".to_owned(), curves: Vec::new(), measured: None };
        assert!(svg(&[empty], "").unwrap().contains("nothing"));
    }
}
