//! Requests of clients: popular by Zipf's law, all the same, or clustered in regions whose popularity goes
//! by.

use mezzanine_ground::random::Random;
use mezzanine_trace::{ClientStep, Clients, Generate, Shape};

use super::super::setup::Refusal;
use super::between::Request;

/// What clients ask for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BlockLoad {
    /// Places of the size of a request, popular by Zipf's law; popular ones do not lie side by side.
    Zipf {
        /// From 0 to 10.
        exponent: f64,
    },
    /// Places of the size of a request, all the same.
    Uniform,
    /// What is popular lies together: regions are popular by Zipf's law, and all places of a region are the
    /// same. It does not stay so: regions change their ranks with others, two at a time.
    Regions {
        /// Bytes of a region.
        bytes: u64,
        /// Of the law, from 0 to 10.
        exponent: f64,
        /// Requests after which every region has changed its rank once, on average; 0: they never do.
        turnover: u64,
    },
    /// Some regions, anywhere on the volume, are hot and all the same, as are the others.
    Hot {
        /// Bytes of a region.
        bytes: u64,
        /// Share of the regions that are hot, above 0 and below 1.
        regions: f64,
        /// Share of the requests that are for them, from 0 to 1.
        requests: f64,
    },
}

/// Where requests come from.
pub(super) enum Source {
    Places { clients: Clients, bytes: u64 },
    Regions(Box<Regions>),
    Hot(Box<Hot>),
}

/// Hot regions and others.
pub(super) struct Hot {
    /// Hot ones first, as many as that.
    region_of: Vec<u32>,
    hot: u64,
    region_bytes: u64,
    bytes: u64,
    /// Of 2^32 requests, how many are for hot regions, and how many are writes.
    to_hot: u64,
    writes: u64,
    random: Random,
}

/// Regions and their ranks.
pub(super) struct Regions {
    ranks: Clients,
    /// By rank, the region that has it.
    region_of: Vec<u32>,
    region_bytes: u64,
    volume_bytes: u64,
    bytes: u64,
    /// Of 2^32 requests, how many are writes.
    writes: u64,
    /// Exchanges of two ranks that are due, in parts of `turnover`.
    due: u64,
    turnover: u64,
    random: Random,
}

impl Source {
    /// Requests of `bytes` on a volume of `volume_bytes`, of which so large a share are writes.
    ///
    /// # Errors
    /// What is wrong with the load.
    pub(super) fn new(
        load: &BlockLoad,
        volume_bytes: u64,
        bytes: u64,
        write_share: f64,
        clients: u32,
        seed: u64,
    ) -> Result<Self, Refusal> {
        let places = |shape, places: u64, exponent| {
            let refused = |reason| Refusal::new("workload", reason, "");
            let pages =
                u32::try_from(places).map_err(|_| refused(format!("{places} places are too many")))?;
            let generate =
                Generate { exponent, write_share, clients, ..Generate::new(shape, pages, 1, seed) };
            generate.clients().map_err(refused)
        };
        let of_32_bits = |share: f64| (share * (1u64 << 32) as f64).round() as u64;
        let check_region = |region_bytes: u64| {
            if region_bytes >= bytes && region_bytes <= volume_bytes {
                return Ok(());
            }
            let reason =
                format!("a region of {region_bytes} bytes does not lie between a request and the volume");
            Err(Refusal::new("region_bytes", reason, format!("use {bytes} to {volume_bytes}")))
        };
        match *load {
            BlockLoad::Hot { bytes: region_bytes, regions: hot, requests } => {
                check_region(region_bytes)?;
                let regions = volume_bytes / region_bytes;
                let count = (regions as f64 * hot).round() as u64;
                if count == 0 || count >= regions || !(0.0..=1.0).contains(&requests) {
                    let reason = format!(
                        "{hot} of {regions} regions with {requests} of the requests leave nothing hot or nothing else"
                    );
                    return Err(Refusal::new("workload", reason, "use shares between 0 and 1"));
                }
                let mut random = Random::new(seed ^ 0x5ce);
                let mut region_of: Vec<u32> = (0..regions as u32).collect();
                for number in 0..count {
                    region_of.swap(number as usize, random.between(number, regions - 1) as usize);
                }
                let (to_hot, writes) = (of_32_bits(requests), of_32_bits(write_share));
                Ok(Self::Hot(Box::new(Hot {
                    region_of,
                    hot: count,
                    region_bytes,
                    bytes,
                    to_hot,
                    writes,
                    random,
                })))
            }
            BlockLoad::Zipf { exponent } => {
                Ok(Self::Places { clients: places(Shape::Zipf, volume_bytes / bytes, exponent)?, bytes })
            }
            BlockLoad::Uniform => {
                Ok(Self::Places { clients: places(Shape::Uniform, volume_bytes / bytes, 0.0)?, bytes })
            }
            BlockLoad::Regions { bytes: region_bytes, exponent, turnover } => {
                check_region(region_bytes)?;
                let regions = volume_bytes / region_bytes;
                let ranks = places(Shape::Zipf, regions, exponent)?;
                Ok(Self::Regions(Box::new(Regions {
                    ranks,
                    region_of: (0..regions as u32).collect(),
                    region_bytes,
                    volume_bytes: regions * region_bytes,
                    bytes,
                    writes: of_32_bits(write_share),
                    due: 0,
                    turnover,
                    random: Random::new(seed ^ 0x5ce),
                })))
            }
        }
    }

    /// What a client asks for next.
    pub(super) fn next(&mut self, client: u32) -> Request {
        match self {
            Self::Places { clients, bytes } => loop {
                if let ClientStep::Page { page, write } = clients.next(client) {
                    return Request { is_write: write, offset: u64::from(page) * *bytes, bytes: *bytes };
                }
            },
            Self::Regions(regions) => regions.next(client),
            Self::Hot(hot) => hot.next(),
        }
    }
}

impl Hot {
    fn next(&mut self) -> Request {
        let is_hot = self.random.next_u64() >> 32 < self.to_hot;
        let all = self.region_of.len() as u64;
        let number =
            if is_hot { self.random.below(self.hot) } else { self.random.between(self.hot, all - 1) };
        let region = u64::from(self.region_of[number as usize]);
        let place = self.random.below(self.region_bytes / self.bytes);
        let is_write = self.random.next_u64() >> 32 < self.writes;
        Request { is_write, offset: region * self.region_bytes + place * self.bytes, bytes: self.bytes }
    }
}

impl Regions {
    fn next(&mut self, client: u32) -> Request {
        self.turn_over();
        let rank = loop {
            if let ClientStep::Page { page, .. } = self.ranks.next(client) {
                break page;
            }
        };
        let region = u64::from(self.region_of[rank as usize]);
        let places = self.region_bytes / self.bytes;
        let offset = region * self.region_bytes + self.random.below(places) * self.bytes;
        debug_assert!(offset + self.bytes <= self.volume_bytes);
        let is_write = self.random.next_u64() >> 32 < self.writes;
        Request { is_write, offset, bytes: self.bytes }
    }

    /// Each exchange gives two regions another rank, so half as many as there are regions are a turnover.
    fn turn_over(&mut self) {
        if self.turnover == 0 {
            return;
        }
        let regions = self.region_of.len() as u64;
        self.due += regions;
        while self.due >= 2 * self.turnover {
            self.due -= 2 * self.turnover;
            let (one, other) = (self.random.below(regions), self.random.below(regions));
            self.region_of.swap(one as usize, other as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn regions_are_popular_and_change_their_ranks() {
        let load = |turnover| BlockLoad::Regions { bytes: 1 << 20, exponent: 1.0, turnover };
        let mut counts = Vec::new();
        for turnover in [0, 1000] {
            let mut source = Source::new(&load(turnover), 100 << 20, 4096, 0.13, 4, 1).unwrap();
            let mut of = [0_u32; 100];
            let mut writes = 0;
            for number in 0..40_000 {
                let request = source.next(number % 4);
                assert!(request.offset % 4096 == 0 && request.bytes == 4096);
                of[(request.offset >> 20) as usize] += 1;
                writes += u32::from(request.is_write);
            }
            assert!((4_900..5_500).contains(&writes), "{writes} of 40,000 are not 13 %");
            counts.push(*of.iter().max().unwrap());
        }
        // The first of 100 by Zipf's law has 1 / 5.187 of them; with 40 turnovers every region is first at
        // times.
        assert!((7_400..8_000).contains(&counts[0]) && counts[1] < 2_500, "{counts:?}");
    }
    #[test]
    fn hot_regions_have_their_share() {
        let load = BlockLoad::Hot { bytes: 1 << 20, regions: 0.2, requests: 0.9 };
        let mut source = Source::new(&load, 100 << 20, 4096, 0.13, 4, 1).unwrap();
        let mut of = [0_u32; 100];
        (0..100_000).for_each(|_| of[(source.next(0).offset >> 20) as usize] += 1);
        of.sort_unstable_by(|one, other| other.cmp(one));
        // 90,000 for 20 regions, 10,000 for 80.
        assert!(of[..20].iter().all(|count| (4_200..4_800).contains(count)), "{of:?}");
        assert!(of[20..].iter().all(|count| (80..180).contains(count)), "{of:?}");
        let none = BlockLoad::Hot { bytes: 1 << 20, regions: 0.001, requests: 0.9 };
        assert!(Source::new(&none, 100 << 20, 4096, 0.0, 4, 1).is_err());
    }
}
