//! Members that take requests and never answer.

use super::*;

/// Silent from its `request`th request on, those that make it a member not counted.
fn silent_from(request: u64) -> FaultPlan {
    let silent_from_request = Some(CREATION_REQUESTS + request);
    FaultPlan { silent_from_request, ..FaultPlan::default() }
}

#[test]
fn a_member_that_falls_silent_at_any_request_is_given_up_once_and_masked() {
    for (m, f, write_return) in
        [(3, 4, WriteReturn::All), (3, 4, WriteReturn::Needed), (1, 2, WriteReturn::All)]
    {
        let config = ArrayConfig { write_return, ..config(4, m, f, 2) };
        for request in (1..40).chain([101, 150]) {
            let mut device = with_faults(config, 2, silent_from(request));
            let begin = device.now();
            fill(&mut device, 1);
            assert_filled(&mut device, 1);
            assert_eq!(device.member_state(2), Some(MemberState::Failed), "request {request}");
            let taken = device.now() - begin;
            assert!(taken > Nanos::from_millis(50), "it was given its time");
            assert!(taken < Nanos::from_millis(90), "and that only once");
        }
    }
}

#[test]
fn a_request_to_a_silent_member_takes_the_time_out_and_no_longer() {
    let mut device = with_faults(config(2, 1, 2, 8), 0, silent_from(1));
    let write = run(&mut device, Request::write(1, 0, 8, None));
    assert_eq!(write.result, Ok(()));
    assert_eq!(write.latency(), Nanos::from_millis(50));
    assert!(run(&mut device, Request::write(1, 8, 8, None)).latency() < Nanos::from_millis(1));
    assert_eq!(run(&mut device, Request::flush(1)).result, Ok(()));
    device.idle_until(Nanos::from_seconds(1));
    device.audit();
}

#[test]
fn more_silent_members_than_the_code_bears_lose_ranges_that_the_error_names() {
    let config = config(4, 3, 4, 2);
    let silent = |index: u64| -> MemberDevice {
        match index {
            1 | 2 => Box::new(FaultyDevice::new(memory(), silent_from(40))),
            _ => Box::new(memory()),
        }
    };
    let mut device = ArrayDevice::create(config, (0..4).map(silent).collect()).unwrap();
    write(&mut device, 24, 6, 1).unwrap();
    for sector in (0..24).chain(30..300) {
        let _ = read(&mut device, sector, 1);
    }
    assert_eq!(device.member_state(1), Some(MemberState::Failed));
    assert_eq!(device.member_state(2), Some(MemberState::Failed));
    let error = read(&mut device, 26, 1).unwrap_err().to_string();
    assert!(error.contains("sectors 24 to 29 are lost"), "{error}");
    assert!(error.contains("restore members 1, 2"), "{error}");
    assert!(write(&mut device, 24, 6, 2).is_err());
    device.audit();
}

#[test]
fn without_a_time_out_a_silent_member_is_waited_for() {
    let config = ArrayConfig { member_timeout: None, ..config(2, 1, 2, 8) };
    let mut device = with_faults(config, 0, silent_from(1));
    device.submit(Nanos::ZERO, Request::write(1, 0, 8, None)).unwrap();
    assert!(device.next_completion(Nanos::MAX).is_none());
    assert_eq!(device.in_flight(), 1);
    let config = ArrayConfig { member_timeout: Some(Nanos::ZERO), ..config };
    assert!(ArrayDevice::create(config, blank(2)).is_err());
}

#[test]
fn a_slow_member_is_not_a_silent_one() {
    let geometry = Geometry::new(512, MEMBER_SECTORS).unwrap();
    let access_ns = Nanos::from_millis(49);
    let slow = MemoryConfig {
        geometry,
        access_ns,
        server_count: 1,
        queue_depth_max: 1,
        ..MemoryConfig::default()
    };
    let members = (0..4).map(|_| Box::new(MemoryDevice::new(slow.clone())) as MemberDevice);
    let mut device = ArrayDevice::create(config(4, 3, 4, 2), members.collect()).unwrap();
    for id in 0..20 {
        device.submit(Nanos::ZERO, Request::write(id, id * 6, 6, None)).unwrap();
    }
    while let Some(done) = device.next_completion(Nanos::MAX) {
        done.result.unwrap();
    }
    assert!((0..4).all(|index| device.member_state(index) == Some(MemberState::Healthy)));
}

#[test]
fn a_silent_member_is_replaced_and_rebuilt() {
    let mut device = with_faults(config(4, 3, 4, 2), 3, silent_from(20));
    fill(&mut device, 1);
    let mut old = device.replace_member(3, Box::new(memory())).unwrap();
    assert!(old.in_flight() > 0, "its requests are with it still");
    assert!(old.next_completion(Nanos::MAX).is_none());
    settle(&mut device);
    assert_eq!(device.member_state(3), Some(MemberState::Healthy));
    device.fail_member(0);
    assert_filled(&mut device, 1);
}

/// Answers all requests, each `delay` later than the device below.
struct Late {
    inner: MemoryDevice,
    delay: Nanos,
}

impl Device for Late {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }
    fn now(&self) -> Nanos {
        self.inner.now()
    }
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        self.inner.submit(now, request)
    }
    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        let mut done = self.inner.next_completion(Nanos(until.0.checked_sub(self.delay.0)?))?;
        done.completed_at += self.delay;
        Some(done)
    }
    fn in_flight(&self) -> u32 {
        self.inner.in_flight()
    }
    fn idle_until(&mut self, time: Nanos) -> Nanos {
        time
    }
    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

#[test]
fn what_a_member_says_after_it_was_given_up_is_not_heard() {
    let late = Late { inner: memory(), delay: Nanos::from_millis(70) };
    let mut members = ArrayDevice::create(config(2, 1, 2, 8), blank(2)).unwrap().into_members();
    members[0] = Box::new(late);
    let mut device = ArrayDevice::open(config(2, 1, 2, 8), members).unwrap();
    assert_eq!(device.member_state(0), Some(MemberState::Failed), "it was looked at when opened");
    for time in 0..10 {
        write(&mut device, 8, 8, time).unwrap();
        device.idle_until(device.now() + Nanos::from_millis(20));
        assert_eq!(read(&mut device, 9, 1).unwrap(), content(9, time));
    }
    device.audit();
    let late = Late { inner: memory(), delay: Nanos::from_millis(70) };
    let members: Vec<MemberDevice> = vec![Box::new(late), Box::new(memory())];
    let mut device = ArrayDevice::create(config(2, 1, 2, 8), members).unwrap();
    for time in 0..10 {
        write(&mut device, 8, 8, time).unwrap();
        device.idle_until(device.now() + Nanos::from_millis(20));
    }
    assert_eq!(device.member_state(0), Some(MemberState::Failed));
    device.audit();
}
