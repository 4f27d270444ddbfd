//! Servers that are all the same, with one line in front of them: the cores of the host.

/// First come, first served, by whichever server is free first.
pub(super) struct Servers {
    /// When each has finished what it was given.
    free_at: Vec<u64>,
    load: Load,
}

/// What a station has done; times are sums of ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) served: u64,
    /// Servers at work.
    pub(super) busy: u64,
    /// Time spent there by those who came, waiting and being served.
    pub(super) residence: u64,
}

impl Servers {
    /// `servers` that are idle, at least one.
    pub(super) fn new(servers: u32) -> Self {
        Self { free_at: vec![0; servers.max(1) as usize], load: Load::default() }
    }

    /// Gives somebody who comes now work of so many ns; when it will be done. Calls are in the order of time.
    pub(super) fn serve(&mut self, now: u64, work: u64) -> u64 {
        let mut first = 0;
        for (server, free_at) in self.free_at.iter().enumerate() {
            if *free_at < self.free_at[first] {
                first = server;
            }
        }
        let done = self.free_at[first].max(now) + work;
        self.free_at[first] = done;
        self.load.served += 1;
        self.load.busy += work;
        self.load.residence += done - now;
        done
    }

    pub(super) fn load(&self) -> Load {
        self.load
    }

    pub(super) fn servers(&self) -> u32 {
        self.free_at.len() as u32
    }
}
