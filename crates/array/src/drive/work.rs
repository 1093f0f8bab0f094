//! What a stripe's job does: choose fragments, judge what came, compute, store, repair.

use super::*;

impl<D: Device + ?Sized> ArrayDevice<D> {
    /// Starts `job` when it gets its stripe.
    pub(super) fn enqueue(&mut self, job: Job) {
        let extent = self.map.extent_of(job.stripe);
        let mut job = Some(job);
        let held = self.migration.as_mut().is_some_and(|moving| moving.holds(extent, &mut job));
        let Some(job) = job.filter(|_| !held) else { return };
        let id = self.new_id();
        let (stripe, exclusive) = (job.stripe, job.kind != JobKind::Read);
        self.jobs.insert(id, job);
        if self.locks.entry(stripe).or_default().acquire(id, exclusive) {
            self.start(id);
        }
    }

    fn start(&mut self, id: u64) {
        let mut job = self.jobs.remove(&id).expect("a job waits until it starts");
        job.found = vec![None; usize::from(self.shape(job.stripe).layout.written_count())];
        let wanted = self.choose(&job);
        self.gather(id, job, wanted);
    }

    /// Fragments, as bits, that `job` asks for first: invariant 3.
    fn choose(&self, job: &Job) -> u32 {
        let is_known = self.versions[to_index(job.stripe)] != UNKNOWN;
        let is_whole = u64::from(job.sector_count) == self.map.stripe_sectors;
        if !is_known || matches!(job.kind, JobKind::Repair | JobKind::Move) {
            return self.usable(job.stripe, MemberState::Rebuilding);
        }
        if job.kind == JobKind::Write && is_whole {
            return 0;
        }
        let healthy = self.usable(job.stripe, MemberState::Healthy);
        let needed = u32::from(self.shape(job.stripe).layout.needed_count());
        let data = self.data_fragments(job);
        if job.kind == JobKind::Read && needed > 1 && healthy & data == data {
            return data;
        }
        if healthy.count_ones() < needed {
            return self.usable(job.stripe, MemberState::Rebuilding);
        }
        let mut ranked: Vec<(Nanos, u64, u8)> =
            numbers(healthy).map(|number| self.rank(job.stripe, number)).collect();
        ranked.sort_unstable();
        ranked[..needed as usize].iter().fold(0, |bits, (_, _, number)| bits | 1 << number)
    }

    /// How soon fragment `number` can be read: by time where members' times are known, since a write
    /// keeps a chip many times as long as a read of as many bytes; by bytes where they are not.
    fn rank(&self, stripe: u64, number: u8) -> (Nanos, u64, u8) {
        let member = &self.members[self.member_of(stripe, number)];
        (member.free_at.saturating_sub(self.clock.now()), member.work_bytes, number)
    }

    /// Fragments on members that are as good as `state` or better.
    fn usable(&self, stripe: u64, state: MemberState) -> u32 {
        let good = |number: &u8| match self.members[self.member_of(stripe, *number)].state {
            MemberState::Healthy => true,
            MemberState::Rebuilding => state == MemberState::Rebuilding,
            MemberState::Failed => false,
        };
        let all = 0..self.shape(stripe).layout.written_count();
        all.filter(good).fold(0, |bits, number| bits | 1 << number)
    }

    fn member_of(&self, stripe: u64, number: u8) -> usize {
        self.map.slot(self.map.place_of(stripe), stripe, number).0
    }

    /// How `stripe` lies.
    fn shape(&self, stripe: u64) -> &Shape {
        &self.map.shapes[self.map.place_of(stripe).shape]
    }

    /// The data fragments that hold the sectors of `job`.
    fn data_fragments(&self, job: &Job) -> u32 {
        let per_fragment = self.shape(job.stripe).fragment_sector_count;
        let first = job.first_sector / per_fragment;
        let last = (job.first_sector + job.sector_count - 1) / per_fragment;
        (first..=last).fold(0, |bits, number| bits | 1 << number)
    }

    fn gather(&mut self, id: u64, mut job: Job, wanted: u32) {
        job.tried |= wanted;
        job.outstanding_count = wanted.count_ones();
        let stripe = job.stripe;
        let place = self.map.place_of(stripe);
        if wanted == 0 {
            return self.gathered(id, job);
        }
        self.jobs.insert(id, job);
        for number in numbers(wanted) {
            let length = to_index(self.shape(stripe).slot_sectors());
            let slot = self.config.keeps_data.then(|| IoBuffer::zeroed(length * self.sector_bytes));
            self.ask((id, number), place, stripe, Operation::Read, slot);
        }
    }

    fn ask(
        &mut self,
        (job, number): (u64, u8),
        place: Place,
        stripe: u64,
        operation: Operation,
        slot: Option<IoBuffer>,
    ) {
        let (member, first) = self.map.slot(place, stripe, number);
        let count = to_u32(self.map.shapes[place.shape].slot_sectors());
        let id = self.new_id();
        let request = match operation {
            Operation::Read => Request::read(id, first, count, slot),
            _ => Request::write(id, first, count, slot),
        };
        let byte_count = u64::from(count) * self.sector_bytes as u64;
        self.addressees.insert(id, Addressee::Fragment { job, number, byte_count });
        let chooser = self.chooser.as_ref();
        let service = chooser
            .map_or(Nanos::ZERO, |chooser| chooser.service(operation, first, u64::from(count)));
        self.members[member].send(self.clock.now(), request, service);
    }

    /// A fragment was read or stored, or its member failed to.
    pub(super) fn fragment_done(
        &mut self,
        id: u64,
        number: u8,
        is_done: bool,
        buffer: Option<IoBuffer>,
    ) {
        let mut job = self.jobs.remove(&id).expect("a job waits for its fragments");
        job.outstanding_count -= 1;
        if job.is_storing {
            job.stored_count += u32::from(is_done);
            return self.stored(id, job);
        }
        job.found[usize::from(number)] = match buffer {
            _ if !is_done => None,
            Some(slot) => from_slot(&slot, job.stripe, number, self.sector_bytes),
            None => Some(self.assumed(job.stripe)),
        };
        if job.outstanding_count > 0 {
            self.jobs.insert(id, job);
        } else {
            self.gathered(id, job);
        }
    }

    /// What a fragment is taken for where no bytes are stored.
    fn assumed(&self, stripe: u64) -> Fragment {
        let version = self.versions[to_index(stripe)];
        Fragment { version: if version == UNKNOWN { 0 } else { version }, data: Vec::new() }
    }

    /// Fragments of one version, as bits, and that version: the known one, or the newest that has
    /// enough. `None` where versions are mixed or fragments too few.
    fn newest(&self, job: &Job) -> Option<(u32, u64)> {
        let of_version = |version: u64| {
            let found = job.found.iter().zip(0_u32..);
            let same =
                found.filter(|(found, _)| found.as_ref().is_some_and(|f| f.version == version));
            same.fold(0_u32, |bits, (_, number)| bits | 1 << number)
        };
        let known = self.versions[to_index(job.stripe)];
        if known != UNKNOWN {
            return Some((of_version(known), known));
        }
        let mut versions: Vec<u64> =
            job.found.iter().flatten().map(|found| found.version).collect();
        versions.sort_unstable();
        let needed = u32::from(self.shape(job.stripe).layout.needed_count());
        let enough = |version: &u64| of_version(*version).count_ones() >= needed;
        let newest = versions.into_iter().rev().find(enough)?;
        Some((of_version(newest), newest))
    }

    /// Everything that was asked for has come, or never will.
    fn gathered(&mut self, id: u64, mut job: Job) {
        let needed = u32::from(self.shape(job.stripe).layout.needed_count());
        let data_bits = (1_u32 << needed) - 1;
        let is_whole = u64::from(job.sector_count) == self.map.stripe_sectors;
        let known = self.versions[to_index(job.stripe)];
        if job.kind == JobKind::Write && is_whole && known != UNKNOWN {
            return self.store_new(id, job, known, 0);
        }
        let newest = self.newest(&job);
        let present = newest.map_or(0, |(present, _)| present);
        let data = if job.kind == JobKind::Read { self.data_fragments(&job) } else { data_bits };
        if present.count_ones() < needed && present & data != data {
            let others = self.usable(job.stripe, MemberState::Rebuilding) & !job.tried;
            if others != 0 {
                return self.gather(id, job, others);
            }
            return self.gathered_too_few(id, job, data_bits);
        }
        let version = newest.map_or(0, |(_, version)| version);
        // A power cut left fragments of a write that too few members took. The stripe is written
        // anew past their version, so that it never means two things.
        let torn = job.found.iter().flatten().map(|found| found.version).max();
        let torn = torn.filter(|torn| known == UNKNOWN && *torn > version);
        if torn.is_none() {
            self.versions[to_index(job.stripe)] = version;
        }
        let in_use = self.usable(job.stripe, MemberState::Rebuilding);
        let lost = job.tried & in_use & !present;
        if (lost != 0 || torn.is_some()) && job.kind != JobKind::Repair {
            self.repairs.insert(job.stripe);
        }
        match (job.kind, torn) {
            (JobKind::Read, _) => {
                self.fill_buffer(&mut job, present, data);
                self.report(&mut job, Ok(()));
                self.end(&job);
            }
            (JobKind::Write, _) => self.store_new(id, job, torn.unwrap_or(version), present),
            (JobKind::Repair, None) => {
                let fragments = self.compute(&mut job, present, lost);
                self.store(id, job, version, &fragments, lost);
            }
            (JobKind::Repair, Some(torn)) => {
                let fragments = self.compute(&mut job, present, in_use);
                self.versions[to_index(job.stripe)] = torn + 1;
                self.store(id, job, torn + 1, &fragments, in_use);
            }
            (JobKind::Move, _) => {
                let fragments = self.compute(&mut job, present, data_bits);
                self.store_copy(id, job, torn.unwrap_or(version), &fragments);
            }
        }
    }

    /// Stores data that were read in one shape in the shape and the cell that their extent moves to.
    fn store_copy(&mut self, id: u64, job: Job, version: u64, fragments: &[Vec<u8>]) {
        let target = self.migration.as_ref().expect("a copy belongs to a migration").target;
        let shape = &self.map.shapes[target.shape];
        let (needed, written) = (shape.layout.needed_count(), shape.layout.written_count());
        let mut copies = vec![Vec::new(); usize::from(written)];
        if self.config.keeps_data {
            let length = shape.fragment_sector_count as usize * self.sector_bytes;
            let from_needed = usize::from(self.shape(job.stripe).layout.needed_count());
            let mut data = fragments[..from_needed].concat();
            data.truncate(to_index(self.map.stripe_sectors) * self.sector_bytes);
            data.resize(length * usize::from(needed), 0);
            for (copy, part) in copies.iter_mut().zip(data.chunks(length)) {
                part.clone_into(copy);
            }
            let (data, coded) = copies.split_at_mut(usize::from(needed));
            coded.iter_mut().for_each(|coded| coded.resize(length, 0));
            shape.reconstructor.code().encode(data, coded).expect("fragments are of equal length");
        }
        self.versions[to_index(job.stripe)] = version;
        let members =
            (0..written).map(|number| (number, self.map.slot(target, job.stripe, number)));
        let good =
            members.filter(|(_, (member, _))| self.members[*member].state != MemberState::Failed);
        let which = good.fold(0_u32, |bits, (number, _)| bits | 1 << number);
        if which.count_ones() < u32::from(needed) {
            self.cancel_migration();
            return self.end(&job);
        }
        self.store_at(target, id, job, version + 1, &copies, which);
    }

    /// Nothing is left to be tried: a stripe torn by a power cut whose data are all there is taken
    /// as it is; else it is lost.
    fn gathered_too_few(&mut self, id: u64, mut job: Job, data_bits: u32) {
        let intact = job.found.iter().zip(0_u32..).filter(|(found, _)| found.is_some());
        let intact = intact.fold(0_u32, |bits, (_, number)| bits | 1 << number);
        let is_unknown = self.versions[to_index(job.stripe)] == UNKNOWN;
        let versions = job.found.iter().flatten().map(|found| found.version);
        let newest = versions.max().unwrap_or(0);
        if job.kind == JobKind::Write && u64::from(job.sector_count) == self.map.stripe_sectors {
            return self.store_new(id, job, newest, 0);
        }
        if is_unknown && intact & data_bits == data_bits {
            match job.kind {
                JobKind::Move => {
                    let fragments = self.compute(&mut job, data_bits, 0);
                    return self.store_copy(id, job, newest, &fragments);
                }
                JobKind::Read => {
                    let data = self.data_fragments(&job);
                    self.fill_buffer(&mut job, intact, data);
                    self.repairs.insert(job.stripe);
                    self.report(&mut job, Ok(()));
                    return self.end(&job);
                }
                JobKind::Write => return self.store_new(id, job, newest, data_bits),
                JobKind::Repair => {
                    let all = self.usable(job.stripe, MemberState::Rebuilding);
                    let fragments = self.encoded(&mut job);
                    self.versions[to_index(job.stripe)] = newest + 1;
                    return self.store(id, job, newest + 1, &fragments, all);
                }
            }
        }
        if job.kind == JobKind::Move {
            self.cancel_migration();
        }
        let error = self.loss(&job);
        self.lost_stripe_count += u64::from(job.kind == JobKind::Repair);
        self.report(&mut job, Err(error));
        self.end(&job);
    }

    /// The error of a stripe of which too few fragments agree.
    fn loss(&self, job: &Job) -> DeviceError {
        let found = || job.found.iter().flatten().map(|found| found.version);
        let same = |version: u64| found().filter(|other| *other == version).count();
        let left = match self.versions[to_index(job.stripe)] {
            UNKNOWN => found().map(same).max().unwrap_or(0),
            known => same(known),
        };
        let lost = job.found.iter().zip(0_u8..).filter(|(found, _)| found.is_none());
        let member = |(_, number)| self.member_of(job.stripe, number).to_string();
        let lost: Vec<String> = lost.map(member).collect();
        let what = format!(
            "{} are lost: {left} intact fragments of one version are left, {} are needed; replace or \
             restore members {}",
            self.sectors_in_words(job),
            self.shape(job.stripe).layout.needed_count(),
            lost.join(", ")
        );
        DeviceError::Media { first_sector: self.first_sector(job), what }
    }

    /// The error of a write that too few members took.
    fn refusal(&self, job: &Job) -> DeviceError {
        let what = format!(
            "{} are not written: {} members took their fragments, {} must",
            self.sectors_in_words(job),
            job.stored_count,
            self.shape(job.stripe).layout.needed_count()
        );
        DeviceError::Media { first_sector: self.first_sector(job), what }
    }

    fn first_sector(&self, job: &Job) -> u64 {
        job.stripe * self.map.stripe_sectors + u64::from(job.first_sector)
    }

    fn sectors_in_words(&self, job: &Job) -> String {
        let stripe_sectors = self.map.stripe_sectors;
        let start = job.stripe * stripe_sectors;
        format!("sectors {start} to {}", start + stripe_sectors - 1)
    }

    /// Data, or all, fragments as they are or as they are computed from those `present`.
    fn compute(&mut self, job: &mut Job, present: u32, wanted: u32) -> Vec<Vec<u8>> {
        if !self.config.keeps_data {
            return vec![Vec::new(); job.found.len()];
        }
        let length = self.shape(job.stripe).fragment_sector_count as usize * self.sector_bytes;
        let take = |(found, number): (&mut Option<Fragment>, u32)| match found.take() {
            Some(found) if present & 1 << number != 0 => found.data,
            _ => vec![0; length],
        };
        let mut fragments: Vec<Vec<u8>> = job.found.iter_mut().zip(0..).map(take).collect();
        if wanted & !present != 0 {
            let present: FragmentSet = numbers(present).collect();
            let shape = self.map.place_of(job.stripe).shape;
            let reconstructor = &mut self.map.shapes[shape].reconstructor;
            let rebuilt = reconstructor.reconstruct(&mut fragments, present);
            rebuilt.expect("m fragments of equal length are present");
        }
        fragments
    }

    /// The data fragments found, and coded ones computed from them.
    fn encoded(&mut self, job: &mut Job) -> Vec<Vec<u8>> {
        if !self.config.keeps_data {
            return vec![Vec::new(); job.found.len()];
        }
        let needed = usize::from(self.shape(job.stripe).layout.needed_count());
        let data_bits = (1_u32 << needed) - 1;
        let mut fragments = self.compute(job, data_bits, 0);
        let (data, coded) = fragments.split_at_mut(needed);
        self.shape(job.stripe)
            .reconstructor
            .code()
            .encode(data, coded)
            .expect("fragments are of equal length");
        fragments
    }

    fn fill_buffer(&mut self, job: &mut Job, present: u32, data: u32) {
        if !self.config.keeps_data {
            return;
        }
        let (sector, fragment) = (self.sector_bytes, self.shape(job.stripe).fragment_sector_count);
        let fragments = self.compute(job, present, data);
        let request = job.request.and_then(|request| self.requests.get_mut(&request));
        let Some(buffer) = request.and_then(|request| request.origin.buffer.as_mut()) else {
            return;
        };
        for index in 0..job.sector_count {
            let place = job.first_sector + index;
            let from = (place % fragment) as usize * sector;
            let to = job.buffer_offset + index as usize * sector;
            let source = &fragments[(place / fragment) as usize][from..from + sector];
            buffer[to..to + sector].copy_from_slice(source);
        }
    }

    /// Stores the stripe with the sectors of `job` overwritten, as the version after `version`.
    fn store_new(&mut self, id: u64, mut job: Job, version: u64, present: u32) {
        let needed = usize::from(self.shape(job.stripe).layout.needed_count());
        let wanted = if present == 0 { 0 } else { (1_u32 << needed) - 1 };
        let mut fragments = self.compute(&mut job, present, wanted);
        if self.config.keeps_data {
            self.overwrite(&job, &mut fragments);
            let (data, coded) = fragments.split_at_mut(needed);
            self.shape(job.stripe)
                .reconstructor
                .code()
                .encode(data, coded)
                .expect("fragments are of equal length");
        }
        self.versions[to_index(job.stripe)] = version + 1;
        let all = self.usable(job.stripe, MemberState::Rebuilding);
        self.store(id, job, version + 1, &fragments, all);
    }

    /// Puts what the request of `job` writes into data fragments.
    fn overwrite(&self, job: &Job, fragments: &mut [Vec<u8>]) {
        let (sector, fragment) = (self.sector_bytes, self.shape(job.stripe).fragment_sector_count);
        let request = job.request.and_then(|request| self.requests.get(&request));
        let origin = request.map(|request| &request.origin);
        let buffer = origin.filter(|origin| origin.operation == Operation::Write);
        let buffer = buffer.and_then(|origin| origin.buffer.as_ref());
        for index in 0..job.sector_count {
            let place = job.first_sector + index;
            let to = (place % fragment) as usize * sector;
            let from = job.buffer_offset + index as usize * sector;
            let target = &mut fragments[(place / fragment) as usize][to..to + sector];
            match buffer {
                Some(buffer) => target.copy_from_slice(&buffer[from..from + sector]),
                None => target.fill(0),
            }
        }
    }

    fn store(&mut self, id: u64, job: Job, version: u64, fragments: &[Vec<u8>], which: u32) {
        let extent = self.map.extent_of(job.stripe);
        if let Some(migration) = &mut self.migration {
            migration.note_write(extent, job.stripe);
        }
        let place = self.map.place_of(job.stripe);
        self.store_at(place, id, job, version, fragments, which);
    }

    fn store_at(
        &mut self,
        place: Place,
        id: u64,
        mut job: Job,
        version: u64,
        fragments: &[Vec<u8>],
        which: u32,
    ) {
        job.is_storing = true;
        job.outstanding_count = which.count_ones();
        job.asked_count = job.outstanding_count;
        let stripe = job.stripe;
        if which == 0 {
            return self.stored(id, job);
        }
        self.jobs.insert(id, job);
        for number in numbers(which) {
            let data = &fragments[usize::from(number)];
            let slot = || to_slot(version, stripe, number, self.sector_bytes, data);
            let slot = self.config.keeps_data.then(slot);
            self.ask((id, number), place, stripe, Operation::Write, slot);
        }
    }

    /// A fragment was stored, or none has to be.
    fn stored(&mut self, id: u64, mut job: Job) {
        let needed = u32::from(self.shape(job.stripe).layout.needed_count());
        let is_last = job.outstanding_count == 0;
        let is_enough = job.stored_count >= needed;
        if is_enough && (is_last || self.config.write_return == WriteReturn::Needed) {
            self.report(&mut job, Ok(()));
        }
        if !is_last {
            self.jobs.insert(id, job);
            return;
        }
        if job.kind == JobKind::Move {
            let is_whole = job.stored_count == job.asked_count;
            self.move_ended(&job, is_whole);
        }
        if job.kind == JobKind::Write {
            if !is_enough {
                // Old fragments may still be enough, or the new ones that were taken.
                self.versions[to_index(job.stripe)] = UNKNOWN;
                let error = self.refusal(&job);
                self.report(&mut job, Err(error));
            }
            let in_use = self.usable(job.stripe, MemberState::Rebuilding).count_ones();
            if job.stored_count < in_use {
                self.repairs.insert(job.stripe);
            }
        }
        self.end(&job);
    }

    /// Tells the request, once.
    fn report(&mut self, job: &mut Job, result: Result<(), DeviceError>) {
        if let (false, Some(request)) = (job.is_reported, job.request) {
            job.is_reported = true;
            self.part_done(request, result);
        }
    }

    /// Gives up the stripe; whoever waits for it goes on.
    fn end(&mut self, job: &Job) {
        if job.kind == JobKind::Repair {
            self.is_repairing = false;
        }
        let lock = self.locks.get_mut(&job.stripe).expect("a job has its stripe");
        lock.release(job.kind != JobKind::Read);
        while let Some(next) = self.locks.get_mut(&job.stripe).and_then(StripeLock::next_ready) {
            self.start(next);
        }
        if self.locks.get(&job.stripe).is_some_and(StripeLock::is_free) {
            self.locks.remove(&job.stripe);
        }
        if self.migration.is_some() {
            self.advance_migration();
        }
    }

    /// A job on all of `stripe` that belongs to no request.
    pub(super) fn whole_stripe_job(&self, kind: JobKind, stripe: u64) -> Job {
        let part = StripePart {
            first_sector: 0,
            sector_count: to_u32(self.map.stripe_sectors),
            buffer_offset: 0,
        };
        Job::new(kind, None, stripe, part)
    }

    /// Begins to repair the next stripe, if none is under repair: invariant 6.
    pub(super) fn start_repair(&mut self) {
        while !self.is_repairing && !self.is_draining {
            let Some(stripe) = self.repairs.pop_first() else {
                for member in &mut self.members {
                    if member.state == MemberState::Rebuilding {
                        member.state = MemberState::Healthy;
                    }
                }
                return;
            };
            let job = self.whole_stripe_job(JobKind::Repair, stripe);
            self.is_repairing = true;
            self.enqueue(job);
        }
    }
}

/// The numbers of the bits that are set.
fn numbers(bits: u32) -> impl Iterator<Item = u8> {
    (0..32).filter(move |number| bits & 1 << number != 0)
}
