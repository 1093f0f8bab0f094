//! The array as a [`Device`]: requests in, parts for stripes, completions out.
//!
//! 1. Members' completions are acted upon in the order of their times; those of real members as
//!    they are found.
//! 2. A member is given up when a request has been with it for `member_timeout`, and not before.

use super::*;

/// The first step in which members are asked for completions; each is a quarter longer.
const STEP_NS: u64 = 64;
/// How long one of several busy real members is waited for before another is asked.
const WALL_TURN: Nanos = Nanos(50_000);

impl<D: Device + ?Sized> ArrayDevice<D> {
    /// Acts on what members do next, an answer or a silence that is too long, if it comes at or
    /// before `until`; whether anything did.
    pub(super) fn act_on_next(&mut self, until: Nanos) -> bool {
        let due = self.migration_due();
        if due.is_none() && !self.members.iter().any(Member::is_busy) {
            return false;
        }
        // Steps in which every member is known to be silent are not asked about.
        let silence = self.members.iter().map(Member::silent_until).min().unwrap_or(Nanos::ZERO);
        let silence = silence.saturating_sub(Device::now(self));
        let mut step = STEP_NS;
        while step + step / 4 < silence.0.min(u64::MAX / 2) {
            step += step / 4;
        }
        loop {
            let due = self.migration_due();
            let now = Device::now(self);
            let deadline = self.next_deadline();
            let next = deadline.map_or(until, |(deadline, _)| deadline.min(until));
            let next = due.map_or(next, |due| due.max(now).min(next));
            let limit = match self.info.time_source {
                TimeSource::Virtual => now.saturating_add(Nanos(step)).min(next),
                TimeSource::Wall => self.wait_for_some(now, next),
            };
            let times = self.members.iter_mut().enumerate();
            let times = times.filter_map(|(index, member)| Some((member.next_at(limit)?, index)));
            if let Some((time, index)) = times.min() {
                self.clock.advance_to(time);
                if let Some(completion) = self.members[index].take() {
                    self.answer(index, completion);
                }
                self.go_on();
                return true;
            }
            if let Some((_, index)) = deadline.filter(|(deadline, _)| *deadline <= limit) {
                self.clock.advance_to(limit);
                self.give_up(index);
                self.go_on();
                return true;
            }
            if due.is_some_and(|due| due <= limit) {
                self.clock.advance_to(limit);
                self.advance_migration();
                self.go_on();
                return true;
            }
            if limit >= until {
                return false;
            }
            step = step.saturating_add(step / 4);
        }
    }

    /// Has all go on that may have waited for what has just happened.
    fn go_on(&mut self) {
        self.start_repair();
        self.advance_flushes();
    }

    /// When which member will have been silent for too long.
    fn next_deadline(&self) -> Option<(Nanos, usize)> {
        let timeout = self.config.member_timeout?;
        let members = self.members.iter().enumerate();
        members.filter_map(|(index, member)| Some((member.deadline(timeout)?, index))).min()
    }

    /// On real devices: waits for the first of them, in turns, until one answers or `next` has come.
    /// Returns the present, after which nothing need be waited for.
    fn wait_for_some(&mut self, now: Nanos, next: Nanos) -> Nanos {
        let has_answer = |member: &mut Member<D>| member.next_at(now).is_some();
        let has_one = self.members.iter_mut().filter(|member| member.is_busy()).any(has_answer);
        if !has_one && now < next {
            let busy_count = self.members.iter().filter(|member| member.is_busy()).count();
            let turn = if busy_count == 1 { next } else { now.saturating_add(WALL_TURN).min(next) };
            for member in self.members.iter_mut().filter(|member| member.is_busy()) {
                if member.next_at(turn).is_some() {
                    break;
                }
            }
        }
        Device::now(self)
    }

    /// Gives up member `index`, which has been silent for too long: its fragments count as lost.
    fn give_up(&mut self, index: usize) {
        let within = self.config.member_timeout.unwrap_or_default();
        for id in self.members[index].give_up() {
            let addressee = self.addressees.remove(&id).expect("members are asked for somebody");
            self.tell(index, addressee, &Err(DeviceError::NoAnswer { within }), None);
        }
    }

    /// Lets what goes on behind completed requests come to its end.
    pub(super) fn drain(&mut self) {
        self.is_draining = true;
        while self.act_on_next(Nanos::MAX) {}
        self.is_draining = false;
    }

    fn answer(&mut self, index: usize, completion: Completion) {
        let answered = self.addressees.remove(&completion.id);
        let addressee = answered.expect("members answer what they were asked");
        let byte_count = match addressee {
            Addressee::Fragment { byte_count, .. } | Addressee::Flush { byte_count, .. } => {
                byte_count
            }
        };
        let member = &mut self.members[index];
        member.answered(byte_count);
        // A member that fails a flush is given up at its first error: nobody knows any more what of
        // its earlier writes is durable.
        let error_count_max = match addressee {
            Addressee::Fragment { .. } => self.config.member_error_count_max,
            Addressee::Flush { .. } => 0,
        };
        member.note(&completion.result, error_count_max);
        self.tell(index, addressee, &completion.result, completion.buffer);
    }

    /// Tells what member `index` answered, or that it did not.
    fn tell(
        &mut self,
        index: usize,
        addressee: Addressee,
        result: &Result<(), DeviceError>,
        buffer: Option<IoBuffer>,
    ) {
        match addressee {
            Addressee::Fragment { job, number, .. } => {
                self.fragment_done((job, number), index, result.is_ok(), buffer);
            }
            Addressee::Flush { flush, .. } => self.flush_answered(flush),
        }
    }

    /// One part of `request` is done; with the last, so is the request.
    pub(super) fn part_done(&mut self, request: u64, result: Result<(), DeviceError>) {
        let pending = self.requests.get_mut(&request).expect("a part belongs to a request");
        pending.part_count -= 1;
        if let Err(error) = result {
            pending.error.get_or_insert(error);
        }
        if pending.part_count > 0 {
            return;
        }
        let pending = self.requests.remove(&request).expect("it was there");
        let result = pending.error.map_or(Ok(()), Err);
        if let (Some(chooser), Some(is_write)) = (&mut self.chooser, pending.observed) {
            chooser.note_end(self.clock.now(), pending.first_sector, is_write);
        }
        self.counters.count(pending.origin.operation, pending.byte_count, result.is_ok());
        self.completions.push(pending.origin.complete(self.clock.now(), result));
    }

    /// Shows a request to the chooser, and lets it choose when it is time.
    fn observe(&mut self, now: Nanos, pending: &Pending, sector_count: u32) {
        let is_moving = self.migration.is_some() || !self.wanted_places.is_empty();
        let Some(chooser) = &mut self.chooser else { return };
        if chooser.is_due(now) && is_moving {
            chooser.forget(now);
        } else if chooser.is_due(now) {
            chooser.choose(now, &self.config, &self.map);
            self.want_in_use();
        }
        if let (Some(chooser), Some(is_write)) = (&mut self.chooser, pending.observed) {
            chooser.note_issue(now, pending.first_sector, sector_count, is_write);
        }
        self.begin_migration();
    }

    /// Extents that are in use are to have the shapes that are their objects' targets.
    fn want_in_use(&mut self) {
        let Some(chooser) = &self.chooser else { return };
        let extent_sectors = self.map.stripes_per_extent * self.map.stripe_sectors;
        for (extent, place) in self.map.places.iter().enumerate() {
            let target = chooser.targets[chooser.object_of(extent as u64 * extent_sectors)];
            if place.shape != target && chooser.heat(extent) > 0 {
                self.wanted_places.insert(extent, target);
            }
        }
    }

    /// All extents of `objects` are to have the shapes that are these objects' targets.
    pub(super) fn want_targets(&mut self, objects: &[usize]) {
        let Some(chooser) = &self.chooser else { return };
        let extent_sectors = self.map.stripes_per_extent * self.map.stripe_sectors;
        for extent in 0..self.map.places.len() {
            let object = chooser.object_of(extent as u64 * extent_sectors);
            if objects.contains(&object) {
                self.wanted_places.insert(extent, chooser.targets[object]);
            }
        }
    }

    pub(super) fn migration_interval(&self) -> Nanos {
        let stripe_bytes = self.map.stripe_sectors * self.sector_bytes as u64;
        let chooser = self.chooser.as_ref();
        chooser.map_or(Nanos::ZERO, |chooser| chooser.migration_interval(stripe_bytes))
    }

    pub(super) fn members_busy(&self) -> Nanos {
        self.members.iter().map(|member| member.device.counters().busy).sum()
    }

    /// What the members have used by `time`, where all of them say.
    pub(super) fn members_energy(&self, time: Nanos) -> Option<EnergyParts> {
        self.members.iter().try_fold(EnergyParts::default(), |sum, member| {
            Some(sum + member.device.energy_by(time)?)
        })
    }

    /// What was done to the cells of all members.
    pub(super) fn members_cells(&self) -> Cells {
        let of_members = self.members.iter().map(|member| Cells::of(&member.device.counters()));
        of_members.fold(Cells::default(), Cells::with)
    }

    /// The same from when counting began, members that were replaced included.
    pub(super) fn cells(&self) -> Cells {
        self.members_cells().since(&self.cells_before).with(self.cells_gone)
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn start_parts(&mut self, request: u64, kind: JobKind, first_sector: u64, sector_count: u32) {
        let stripe_sectors = self.map.stripe_sectors;
        let end = first_sector + u64::from(sector_count);
        let stripes = first_sector / stripe_sectors..end.div_ceil(stripe_sectors);
        let pending = self.requests.get_mut(&request).expect("it was just made");
        pending.part_count = to_u32(stripes.end - stripes.start);
        for stripe in stripes {
            let start = stripe * stripe_sectors;
            let from = first_sector.max(start);
            let part = StripePart {
                first_sector: to_u32(from - start),
                sector_count: to_u32(end.min(start + stripe_sectors) - from),
                buffer_offset: to_index(from - first_sector) * self.sector_bytes,
            };
            self.enqueue(Job::new(kind, Some(request), stripe, part));
        }
    }
}

impl<D: Device + ?Sized> Device for ArrayDevice<D> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&self) -> Nanos {
        match self.info.time_source {
            TimeSource::Virtual => self.clock.now(),
            TimeSource::Wall => self.members[0].now().max(self.clock.now()),
        }
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        if let Err(error) = self.info.check(&request, self.in_flight()) {
            return Err(Rejected { request, error });
        }
        // Events up to now are worked off before the request is taken, such as writes that go on
        // after their request was answered.
        let now = match self.info.time_source {
            TimeSource::Virtual => now,
            TimeSource::Wall => Device::now(self),
        };
        while self.act_on_next(now) {}
        let now = self.clock.advance_to(now);
        let (operation, first_sector) = (request.operation, request.first_sector.0);
        let sector_count = request.sector_count;
        let key = self.new_id();
        let pending = Pending {
            byte_count: self.info.geometry.bytes_of(sector_count),
            origin: InFlight::of(request, now),
            part_count: 1,
            error: None,
            first_sector,
            observed: match operation {
                Operation::Read => Some(false),
                Operation::Write => Some(true),
                Operation::Trim | Operation::Flush => None,
            },
        };
        self.observe(now, &pending, sector_count);
        self.requests.insert(key, pending);
        match operation {
            Operation::Flush => self.begin_flush(Some(key)),
            Operation::Read => self.start_parts(key, JobKind::Read, first_sector, sector_count),
            Operation::Write | Operation::Trim => {
                self.start_parts(key, JobKind::Write, first_sector, sector_count);
            }
        }
        if operation == Operation::Flush {
            self.go_on();
        }
        Ok(())
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        while self.in_flight() > 0 {
            let completion = self.completions.pop(until);
            if completion.is_some() {
                return completion;
            }
            if !self.act_on_next(until) {
                return None;
            }
        }
        None
    }

    fn in_flight(&self) -> u32 {
        to_u32(self.requests.len() as u64) + self.completions.len()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        assert_eq!(self.in_flight(), 0, "nothing may be in flight while idle");
        self.go_on();
        while self.act_on_next(time) {}
        for member in &mut self.members {
            member.idle_until(time);
        }
        self.clock.advance_to(time)
    }

    fn counters(&self) -> Counters {
        let busy = self.members_busy().saturating_sub(self.busy_before);
        let energy = self.energy_by(Nanos::ZERO);
        self.cells().tell(Counters { busy, energy, ..self.counters })
    }

    fn energy_by(&self, time: Nanos) -> Option<EnergyParts> {
        let energy = self.members_energy(time.max(Device::now(self)))?;
        Some(energy.since(&self.energy_before))
    }
}
