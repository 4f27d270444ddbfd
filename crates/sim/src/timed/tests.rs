//! The event clock and its stations against queueing theory.

use mezzanine_workload::Random;

use super::clock::Clock;
use super::processor::Servers;

/// A closed network: customers think, and then visit every station in turn.
struct Network {
    customers: u32,
    think: f64,
    /// Mean service time at each station, exponentially distributed.
    demands: Vec<f64>,
}

/// Throughput, and the mean time of a round without thinking.
struct Obtained {
    per_ns: f64,
    round_ns: f64,
    /// Customers at the stations on average.
    present: f64,
}

impl Network {
    fn simulate(&self, rounds: u64) -> Obtained {
        let mut random = Random::stream(7, &[]);
        let mut exponential = |mean: f64| {
            let fraction = ((random.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64;
            (-fraction.ln() * mean) as u64
        };
        let mut stations: Vec<Servers> = self.demands.iter().map(|_| Servers::new(1)).collect();
        let mut clock = Clock::new();
        let mut began = vec![0; self.customers as usize];
        for customer in 0..self.customers {
            clock.enter(exponential(self.think), (customer, 0));
        }
        let (mut done, mut in_rounds) = (0, 0);
        while done < rounds {
            let (customer, station) = clock.next().expect("customers never leave");
            let now = clock.now();
            if station == 0 {
                began[customer as usize] = now;
            }
            if station < stations.len() {
                let completion = stations[station].serve(now, exponential(self.demands[station]));
                clock.enter(completion, (customer, station + 1));
            } else {
                done += 1;
                in_rounds += now - began[customer as usize];
                clock.enter(now + exponential(self.think), (customer, 0));
            }
        }
        let (end, residence) =
            (clock.now() as f64, stations.iter().map(|station| station.load().residence).sum::<u64>());
        Obtained {
            per_ns: done as f64 / end,
            round_ns: in_rounds as f64 / done as f64,
            present: residence as f64 / end,
        }
    }

    /// Exact mean-value analysis: R_i(n) = D_i (1 + Q_i(n-1)), X(n) = n / (Z + sum of R), Q_i(n) = X(n)
    /// R_i(n).
    fn throughput(&self) -> f64 {
        let mut queues = vec![0.0; self.demands.len()];
        let mut throughput = 0.0;
        for customers in 1..=self.customers {
            let residence: Vec<f64> =
                self.demands.iter().zip(&queues).map(|(demand, queue)| demand * (1.0 + queue)).collect();
            throughput = f64::from(customers) / (self.think + residence.iter().sum::<f64>());
            queues = residence.iter().map(|residence| throughput * residence).collect();
        }
        throughput
    }

    /// X <= min(1 / D_max, N / (Z + sum of D)).
    fn bound(&self) -> f64 {
        let largest = self.demands.iter().copied().fold(0.0, f64::max);
        (1.0 / largest).min(f64::from(self.customers) / (self.think + self.demands.iter().sum::<f64>()))
    }
}

#[test]
fn closed_networks_have_the_throughput_of_mean_value_analysis() {
    for (customers, think, demands) in [
        (1, 0.0, vec![3e6, 1e6]),
        (8, 0.0, vec![1e6; 4]),
        (50, 0.0, vec![1e6; 16]),
        (50, 40e6, vec![2e6, 1e6, 0.5e6]),
        (20, 100e6, vec![1e6, 3e6]),
    ] {
        let network = Network { customers, think, demands };
        let (obtained, exact) = (network.simulate(60_000), network.throughput());
        let deviation = obtained.per_ns / exact - 1.0;
        println!("{customers} customers, {} stations: {deviation:+.4}", network.demands.len());
        assert!(deviation.abs() < 0.05, "{customers} customers: {deviation:+.3}");
        assert!(obtained.per_ns <= network.bound() * 1.02, "{customers} customers: beyond the bound");
        // Little's law: those who are at the stations are as many as come, times how long they stay.
        let little = obtained.per_ns * obtained.round_ns;
        assert!(
            (obtained.present / little - 1.0).abs() < 0.02,
            "{} present, {little} by Little",
            obtained.present
        );
    }
}

#[test]
fn several_servers_share_one_line() {
    let mut servers = Servers::new(2);
    assert_eq!([10, 10, 10, 1].map(|work| servers.serve(0, work)), [10, 10, 20, 11]);
    assert_eq!(servers.serve(100, 5), 105, "nobody waits for idle servers");
    let load = servers.load();
    assert_eq!((load.served, load.busy, load.residence), (5, 36, 10 + 10 + 20 + 11 + 5));
}

#[test]
fn events_of_one_moment_happen_in_the_order_in_which_they_were_entered() {
    let mut clock = Clock::new();
    for (at, event) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b'), (9, 'f')] {
        clock.enter(at, event);
    }
    let mut order = String::new();
    while let Some(event) = clock.next() {
        if event == 'c' {
            // What is late happens now, behind what was entered before.
            clock.enter(1, 'e');
        }
        order.push(event);
    }
    assert_eq!((order.as_str(), clock.now()), ("abcdef", 9));
}

/// Whatever moments events share, they come as from a list that is searched for the earliest.
#[test]
fn many_events_come_in_the_order_of_time_and_of_their_entry() {
    let mut random = Random::stream(11, &[]);
    let (mut clock, mut list) = (Clock::new(), Vec::new());
    let mut events = 0_u32;
    for round in 0..12_000_u32 {
        for _ in 0..random.uniform(0, if round < 6_000 { 3 } else { 0 }) {
            // Now, soon and later: some times over and over, and more at once than are remembered.
            let later = [0, random.uniform(0, 10), random.uniform(0, 300), 1000 * random.uniform(0, 300)];
            let at = clock.now() + u64::from(later[random.uniform(0, 3) as usize]);
            clock.enter(at, events);
            list.push((at, events));
            events += 1;
        }
        let earliest = list.iter().copied().min();
        list.retain(|event| Some(*event) != earliest);
        assert_eq!(clock.next().map(|event| (clock.now(), event)), earliest, "round {round}");
    }
    assert!(list.is_empty() && events > 8_000);
}
