//! Student's t distribution, as far as 95 % intervals need it.

use std::f64::consts::PI;

/// What lies outside of the interval, on both sides together.
const OUTSIDE: f64 = 0.05;

/// The t of a two-sided 95 % interval with `degrees` of freedom, which need not be whole: 12.706 for
/// one, 1.960 for very many. `None` for less than one degree, or for NaN.
///
/// Found by halving an interval of t until the tails P(|T| > t) = I_x(degrees / 2, 1/2) at
/// x = degrees / (degrees + t^2) hold 5 % (NIST Digital Library of Mathematical Functions, 8.17).
///
/// ```
/// assert!((fabricbench::stats::t_95(4.0).unwrap() - 2.776_445).abs() < 1e-6);
/// ```
#[must_use]
pub fn t_95(degrees: f64) -> Option<f64> {
    // Beyond a billion it is the normal quantile to nine digits.
    let degrees = (degrees >= 1.0).then(|| degrees.min(1e9))?;
    // Of one degree and of the normal distribution, each with some room.
    let (mut low, mut high) = (1.9, 12.8);
    for _ in 0..48 {
        let middle = f64::midpoint(low, high);
        if tails(middle, degrees) > OUTSIDE {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(f64::midpoint(low, high))
}

/// P(|T| > t).
fn tails(t: f64, degrees: f64) -> f64 {
    let (a, b) = (degrees / 2.0, 0.5);
    let (x, rest) = (degrees / (degrees + t * t), t * t / (degrees + t * t));
    let front = (a * -(t * t / degrees).ln_1p() + b * rest.ln()
        - (ln_gamma(a) + PI.sqrt().ln() - ln_gamma(a + b)))
    .exp();
    // The fraction converges quickly on the near side of the distribution's bulk (DLMF 8.17.22).
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, rest) / b
    }
}

/// The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let coefficient = |step: u32| {
        let m = f64::from(step / 2);
        if step.is_multiple_of(2) {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        }
    };
    let away_from_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let (mut value, mut above, mut below) = (1.0, 1.0, 0.0);
    for step in 1..2000 {
        let term = coefficient(step);
        below = 1.0 / away_from_zero(1.0 + term * below);
        above = away_from_zero(1.0 + term / above);
        let change = above * below;
        value *= change;
        if (change - 1.0).abs() < 1e-14 {
            break;
        }
    }
    1.0 / value
}

/// The logarithm of the gamma function of a positive `x`: Stirling's series (DLMF 5.11.1), after as
/// many steps of x Gamma(x) = Gamma(x + 1) as make four terms of it good to 13 digits.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut product) = (x, 1.0);
    while x < 16.0 {
        product *= x;
        x += 1.0;
    }
    let square = x * x;
    let series = (1.0 / 12.0
        - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * square)) / square) / square)
        / x;
    (x - 0.5) * x.ln() - x + (2.0 * PI).ln() / 2.0 + series - product.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2: upper 2.5 % points.
    #[test]
    fn as_the_published_tables_have_it() {
        for (degrees, published) in [
            (1.0, 12.706),
            (2.0, 4.303),
            (3.0, 3.182),
            (4.0, 2.776),
            (5.0, 2.571),
            (8.0, 2.306),
            (10.0, 2.228),
            (20.0, 2.086),
            (30.0, 2.042),
            (60.0, 2.000),
            (100.0, 1.984),
            (f64::INFINITY, 1.960),
        ] {
            let t = t_95(degrees).unwrap();
            assert!((t - published).abs() < 0.000_51, "{t} for {degrees} degrees");
        }
        assert_eq!((t_95(0.99), t_95(f64::NAN), t_95(-1.0)), (None, None, None));
    }

    /// With t = sqrt(degrees) tan(angle) the density is that of cos(angle)^(degrees - 1), which is
    /// summed up here by another way, without gamma or beta functions.
    #[test]
    fn degrees_need_not_be_whole() {
        for degrees in [1.0, 1.3, 2.0, 2.71, 3.99, 7.5, 61.8] {
            let steps = 200_000;
            let (mut inside, mut all) = (0.0, 0.0);
            let reach = (t_95(degrees).unwrap() / f64::sqrt(degrees)).atan();
            for step in 0..steps {
                let share = (f64::from(step) + 0.5) / f64::from(steps);
                inside += (share * reach).cos().powf(degrees - 1.0) * reach;
                all += (share * PI / 2.0).cos().powf(degrees - 1.0) * PI / 2.0;
            }
            assert!((inside / all - 0.95).abs() < 1e-4, "{} at {degrees}", inside / all);
        }
    }

    #[test]
    fn more_degrees_are_never_wider() {
        let mut last = f64::INFINITY;
        for step in 0..4000 {
            let t = t_95(1.0 + f64::from(step) * f64::from(step) / 100.0).unwrap();
            assert!(t <= last && t > 1.95, "{t} after {last}");
            last = t;
        }
    }
}
