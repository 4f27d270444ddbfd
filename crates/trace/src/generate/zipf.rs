//! Pages for themselves, popular by Zipf's law or all the same.

use mezzanine_workload::Random;

use super::Generate;
use super::stream::{Source, Steps};

pub(super) struct Pages {
    pages: u32,
    law: Option<Zipf>,
    /// Of 2^32 requests, how many are writes.
    writes: u64,
    /// Pages are taken in steps of this, so that popular ones do not lie side by side.
    stride: u64,
    random: Random,
}

impl Pages {
    pub(super) fn zipf(generate: &Generate) -> Pages {
        Pages { law: Some(Zipf::new(generate.pages, generate.exponent)), ..Pages::uniform(generate) }
    }

    pub(super) fn uniform(generate: &Generate) -> Pages {
        Pages {
            pages: generate.pages,
            law: None,
            writes: (generate.write_share * (1u64 << 32) as f64).round() as u64,
            stride: stride(generate.pages),
            random: Random::stream(generate.seed, &[0x21, generate.shape as u64]),
        }
    }
}

impl Source for Pages {
    fn turn_max(&self) -> u32 {
        1
    }

    fn refill(&mut self, _client: u32, steps: &mut Steps) {
        let page = match &self.law {
            None => u64::from(self.random.uniform(0, self.pages - 1)),
            Some(law) => u64::from(law.draw(&mut self.random) - 1) * self.stride % u64::from(self.pages),
        };
        let is_write = self.random.bits() >> 32 < self.writes;
        if is_write { steps.write(0, page) } else { steps.read(0, page) }
    }
}

/// A number near pages divided by the golden ratio that has no divisor with them: steps of it come by all
/// pages.
fn stride(pages: u32) -> u64 {
    let pages = u64::from(pages);
    let divisor = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let near = (pages as f64 * 0.618_033_988_749_895) as u64;
    (near.max(1)..).find(|stride| divisor(*stride, pages) == 1).unwrap_or(1)
}

/// Zipf's law by rejection and inversion, without a table (Hörmann and Derflinger, "Rejection-inversion to
/// generate variates from monotone discrete distributions", 1996).
struct Zipf {
    exponent: f64,
    items: f64,
    /// The integral of the density at 1.5 less the probability of 1, and at the end.
    low: f64,
    high: f64,
    /// Draws this near to an integer need no second look.
    sure: f64,
}

impl Zipf {
    fn new(items: u32, exponent: f64) -> Zipf {
        let items = f64::from(items);
        let mut law = Zipf { exponent, items, low: 0.0, high: 0.0, sure: 0.0 };
        law.low = law.integral(1.5) - 1.0;
        law.high = law.integral(items + 0.5);
        law.sure = 2.0 - law.inverse(law.integral(2.5) - law.density(2.0));
        law
    }

    /// From 1 to the number of items.
    fn draw(&self, random: &mut Random) -> u32 {
        loop {
            let fraction = (random.bits() >> 11) as f64 / (1u64 << 53) as f64;
            let u = self.high + fraction * (self.low - self.high);
            let x = self.inverse(u);
            let k = x.round().clamp(1.0, self.items);
            if k - x <= self.sure || u >= self.integral(k + 0.5) - self.density(k) {
                return k as u32;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// (x^(1-s) - 1) / (1-s), and the logarithm for s = 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        expm1_over((1.0 - self.exponent) * log) * log
    }

    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.exponent)).max(-1.0);
        (log1p_over(t) * y).exp()
    }
}

/// (e^x - 1) / x, also near 0.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// ln(1 + x) / x, also near 0.
fn log1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_the_probabilities_of_the_law() {
        for (exponent, items) in [(0.0, 10u32), (0.5, 100), (0.99, 1_000), (1.0, 1_000), (2.0, 50)] {
            let law = Zipf::new(items, exponent);
            let mut random = Random::stream(1, &[]);
            let mut counts = vec![0u32; items as usize];
            let draws = 400_000;
            for _ in 0..draws {
                counts[law.draw(&mut random) as usize - 1] += 1;
            }
            let weights: Vec<f64> = (1..=items).map(|k| f64::from(k).powf(-exponent)).collect();
            let sum: f64 = weights.iter().sum();
            for (k, (count, weight)) in counts.iter().zip(&weights).enumerate() {
                let expected = weight / sum * f64::from(draws);
                let distance = (f64::from(*count) - expected).abs();
                assert!(
                    distance < 5.0 * expected.sqrt() + 1.0,
                    "s = {exponent}, rank {}: {count} for {expected}",
                    k + 1
                );
            }
        }
    }

    #[test]
    fn strides_come_by_all_pages() {
        for pages in [1u32, 2, 3, 4, 6, 10, 1_000, 1_024] {
            let stride = stride(pages);
            let mut seen: Vec<u64> = (0..u64::from(pages)).map(|n| n * stride % u64::from(pages)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..u64::from(pages)).collect::<Vec<_>>());
        }
    }
}
