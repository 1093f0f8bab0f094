//! What a stripe's job does: choose fragments, compute, store, repair. What a stripe holds is decided
//! in `decide`.

use super::*;

impl<D: Device + ?Sized> ArrayDevice<D> {
    /// Starts `job` when it gets its stripe.
    pub(super) fn enqueue(&mut self, job: Job) {
        let extent = self.map.extent_of(job.stripe);
        let mut job = Some(job);
        let held = self.migration.as_mut().is_some_and(|moving| moving.holds(extent, &mut job));
        let Some(job) = job.filter(|_| !held) else { return };
        let (id, stripe) = (self.new_id(), job.stripe);
        self.wait_for_stripe(id, job);
        self.start_ready(stripe);
    }

    fn wait_for_stripe(&mut self, id: u64, mut job: Job) {
        job.is_exclusive |= !self.versions[to_index(job.stripe)].is_decided;
        self.locks.entry(job.stripe).or_default().wait(id, job.is_exclusive);
        self.jobs.insert(id, job);
    }

    fn start_ready(&mut self, stripe: u64) {
        while let Some(next) = self.locks.get_mut(&stripe).and_then(StripeLock::next_ready) {
            self.start(next);
        }
    }

    fn start(&mut self, id: u64) {
        let mut job = self.jobs.remove(&id).expect("a job waits until it starts");
        if !job.is_exclusive && !self.versions[to_index(job.stripe)].is_decided {
            // A write of this stripe failed while the job waited, so it is not known which version
            // holds: the job goes back to waiting for the stripe.
            self.locks.get_mut(&job.stripe).expect("a job has its stripe").release(false);
            return self.wait_for_stripe(id, job);
        }
        job.found = vec![None; usize::from(self.shape(job.stripe).layout.written_count())];
        let wanted = self.choose(&job);
        self.gather(id, job, wanted);
    }

    /// Fragments, as bits, that `job` asks for first: invariant 3.
    fn choose(&self, job: &Job) -> u32 {
        let is_decided = self.versions[to_index(job.stripe)].is_decided;
        if job.kind == JobKind::Write && self.is_whole(job) {
            return 0;
        }
        if !is_decided || matches!(job.kind, JobKind::Repair | JobKind::Move) {
            return self.usable(job.stripe, MemberState::Rebuilding);
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

    /// Fragments that can be relied on, on members that are as good as `state` or better. What lies on
    /// one that is being rebuilt is good when the stripe is no longer to be repaired.
    pub(super) fn usable(&self, stripe: u64, state: MemberState) -> u32 {
        let is_repaired = !self.repairs.contains(&stripe);
        self.fragments_on(stripe, |of_member| match of_member {
            MemberState::Healthy => true,
            MemberState::Rebuilding => state == MemberState::Rebuilding && is_repaired,
            MemberState::Failed => false,
        })
    }

    /// Fragments on members that are written to.
    pub(super) fn in_use(&self, stripe: u64) -> u32 {
        self.fragments_on(stripe, |state| state != MemberState::Failed)
    }

    pub(super) fn fragments_on(&self, stripe: u64, is_meant: impl Fn(MemberState) -> bool) -> u32 {
        let all = 0..self.shape(stripe).layout.written_count();
        let meant = all.filter(|n| is_meant(self.members[self.member_of(stripe, *n)].state));
        meant.fold(0, |bits, number| bits | 1 << number)
    }

    pub(super) fn is_whole(&self, job: &Job) -> bool {
        u64::from(job.sector_count) == self.map.stripe_sectors
    }

    pub(super) fn member_of(&self, stripe: u64, number: u8) -> usize {
        self.map.slot(self.map.place_of(stripe), stripe, number).0
    }

    /// The shape in which `stripe` lies on the members.
    pub(super) fn shape(&self, stripe: u64) -> &Shape {
        &self.map.shapes[self.map.place_of(stripe).shape]
    }

    /// The data fragments that hold the sectors of `job`.
    pub(super) fn data_fragments(&self, job: &Job) -> u32 {
        let per_fragment = self.shape(job.stripe).fragment_sector_count;
        let first = job.first_sector / per_fragment;
        let last = (job.first_sector + job.sector_count - 1) / per_fragment;
        (first..=last).fold(0, |bits, number| bits | 1 << number)
    }

    pub(super) fn gather(&mut self, id: u64, mut job: Job, wanted: u32) {
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

    /// A fragment was read or stored by `member`, or it failed to. That one is named, since the extent of the
    /// stripe may have moved to other members meanwhile.
    pub(super) fn fragment_done(
        &mut self,
        (id, number): (u64, u8),
        member: usize,
        is_done: bool,
        buffer: Option<IoBuffer>,
    ) {
        let mut job = self.jobs.remove(&id).expect("a job waits for its fragments");
        job.outstanding_count -= 1;
        if job.is_storing {
            job.stored_count += u32::from(is_done);
            job.missed |= u32::from(!is_done) << number;
            if !is_done && matches!(job.kind, JobKind::Read | JobKind::Repair) {
                // It missed a write before, or what others decided: it must not be asked again.
                self.members[member].state = MemberState::Failed;
            }
            return self.stored(id, job);
        }
        let created = self.membership.created();
        job.found[usize::from(number)] = match buffer {
            _ if !is_done => None,
            Some(slot) => from_slot(&slot, job.stripe, number, self.sector_bytes, created),
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
        Fragment { id: self.versions[to_index(stripe)].id, data: Vec::new() }
    }

    /// Stores data that were read in one shape in the shape and the cell that their extent moves to.
    pub(super) fn store_copy(&mut self, id: u64, mut job: Job, fragments: &[Vec<u8>]) {
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
        let members =
            (0..written).map(|number| (number, self.map.slot(target, job.stripe, number)));
        let good =
            members.filter(|(_, (member, _))| self.members[*member].state != MemberState::Failed);
        let which = good.fold(0_u32, |bits, (number, _)| bits | 1 << number);
        if which.count_ones() < u32::from(needed) {
            self.give_up_migration(&job);
            return self.end(&job);
        }
        job.id = self.membership.next_id();
        self.store_at(target, id, job, &copies, which);
    }

    /// Data, or all, fragments as they are or as they are computed from those `present`.
    pub(super) fn compute(&mut self, job: &mut Job, present: u32, wanted: u32) -> Vec<Vec<u8>> {
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
    pub(super) fn encoded(&mut self, job: &mut Job) -> Vec<Vec<u8>> {
        let needed = usize::from(self.shape(job.stripe).layout.needed_count());
        let mut fragments = self.compute(job, (1_u32 << needed) - 1, 0);
        self.encode(job.stripe, &mut fragments);
        fragments
    }

    /// Computes the coded fragments of `stripe` from its data.
    fn encode(&self, stripe: u64, fragments: &mut [Vec<u8>]) {
        if self.config.keeps_data {
            let shape = self.shape(stripe);
            let needed = usize::from(shape.layout.needed_count());
            let (data, coded) = fragments.split_at_mut(needed);
            shape.reconstructor.code().encode(data, coded).expect("fragments are of equal length");
        }
    }

    /// Hands the sectors of `job` to its request.
    pub(super) fn fill_buffer(&mut self, job: &Job, fragments: &[Vec<u8>]) {
        if !self.config.keeps_data {
            return;
        }
        let (sector, fragment) = (self.sector_bytes, self.shape(job.stripe).fragment_sector_count);
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

    /// Stores the stripe with the sectors of `job` overwritten, as a write of its own.
    pub(super) fn store_new(&mut self, id: u64, mut job: Job, mut fragments: Vec<Vec<u8>>) {
        if self.config.keeps_data {
            self.overwrite(&job, &mut fragments);
            self.encode(job.stripe, &mut fragments);
        }
        self.begin_write(&mut job);
        let all = self.in_use(job.stripe);
        self.store(id, job, &fragments, all);
    }

    /// The stripe holds what `job` stores from now on.
    pub(super) fn begin_write(&mut self, job: &mut Job) {
        job.id = self.membership.next_id();
        let version = &mut self.versions[to_index(job.stripe)];
        job.before = Some(std::mem::replace(version, StripeVersion::decided(job.id)));
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

    pub(super) fn store(&mut self, id: u64, job: Job, fragments: &[Vec<u8>], which: u32) {
        let extent = self.map.extent_of(job.stripe);
        if let Some(migration) = &mut self.migration {
            migration.note_write(extent, job.stripe);
        }
        let place = self.map.place_of(job.stripe);
        self.store_at(place, id, job, fragments, which);
    }

    fn store_at(&mut self, place: Place, id: u64, job: Job, fragments: &[Vec<u8>], which: u32) {
        let (write, stripe, sector_bytes) = (job.id, job.stripe, self.sector_bytes);
        self.store_slots(place, id, job, which, |number| {
            to_slot(write, stripe, number, sector_bytes, &fragments[usize::from(number)])
        });
    }

    /// Stores on `which` that their fragments of the stripe of `job` are lost.
    pub(super) fn store_lost(&mut self, id: u64, job: Job, which: u32) {
        let place = self.map.place_of(job.stripe);
        let slot_sectors = self.map.shapes[place.shape].slot_sectors();
        let slot_bytes = to_index(slot_sectors) * self.sector_bytes;
        self.store_slots(place, id, job, which, |_| lost_slot(slot_bytes));
    }

    fn store_slots(
        &mut self,
        place: Place,
        id: u64,
        mut job: Job,
        which: u32,
        slot: impl Fn(u8) -> IoBuffer,
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
            let slot = self.config.keeps_data.then(|| slot(number));
            self.ask((id, number), place, stripe, Operation::Write, slot);
        }
    }

    /// A fragment was stored, or none has to be.
    fn stored(&mut self, id: u64, mut job: Job) {
        let needed = u32::from(self.shape(job.stripe).layout.needed_count());
        let is_last = job.outstanding_count == 0;
        let is_enough = job.stored_count >= needed;
        let returns_early =
            job.kind == JobKind::Write && self.config.write_return == WriteReturn::Needed;
        if job.kind == JobKind::Write && is_enough && (is_last || returns_early) {
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
        if let Some(before) = job.before.filter(|_| !is_enough) {
            // Old fragments may still be enough, or the new ones that were taken.
            self.versions[to_index(job.stripe)] = StripeVersion::undecided(before.id);
            let error = self.refusal(&job);
            self.report(&mut job, Err(error));
        }
        if job.kind == JobKind::Write && job.missed & self.in_use(job.stripe) != 0 {
            self.repairs.insert(job.stripe);
            self.behind.insert(job.stripe);
        }
        self.report(&mut job, Ok(()));
        self.end(&job);
    }

    /// Answers the request of a job, which is done once only.
    pub(super) fn report(&mut self, job: &mut Job, result: Result<(), DeviceError>) {
        if let (false, Some(request)) = (job.is_reported, job.request) {
            job.is_reported = true;
            self.part_done(request, result);
        }
    }

    /// Gives up the stripe; whoever waits for it goes on.
    pub(super) fn end(&mut self, job: &Job) {
        if job.kind == JobKind::Repair {
            self.is_repairing = false;
            self.repairs.remove(&job.stripe);
            self.behind.remove(&job.stripe);
        }
        let lock = self.locks.get_mut(&job.stripe).expect("a job has its stripe");
        lock.release(job.is_exclusive);
        self.start_ready(job.stripe);
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

    /// Begins to repair the next stripe, if none is under repair: invariant 6. First come those that
    /// flushes wait for. When nothing is left, what was rebuilt becomes current.
    pub(super) fn start_repair(&mut self) {
        while !self.is_repairing {
            let all = if self.is_draining { None } else { self.repairs.first() };
            let Some(&stripe) = self.behind.first().or(all) else { break };
            let job = self.whole_stripe_job(JobKind::Repair, stripe);
            self.is_repairing = true;
            self.repairs_begun += 1;
            self.enqueue(job);
        }
        let is_done = self.repairs.is_empty() && !self.is_repairing && !self.is_draining;
        if is_done && self.members_in(MemberState::Rebuilding) != 0 {
            self.begin_promotion();
        }
    }
}

/// The numbers of the bits that are set.
pub(super) fn numbers(bits: u32) -> impl Iterator<Item = u8> {
    (0..32).filter(move |number| bits & 1 << number != 0)
}
