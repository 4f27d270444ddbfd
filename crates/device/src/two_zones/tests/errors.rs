//! Errors of the device below.

use super::*;

#[test]
pub(super) fn errors_are_returned_and_cost_nothing_that_was_there() {
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let mut case = Case::new(zones_of(1, random.between(3, 9) * BLOCK), 5);
        let mut failed = 0;
        for _ in 0..16 {
            let operation = *random.pick(&[Operation::Write, Operation::Reset, Operation::Read]);
            let fault = Fault::Error(DeviceErrorKind::Io);
            let injection =
                Injection { operation, after: random.below(12), count: random.between(1, 2), fault };
            case.device.inject(injection);
            for _ in 0..20 {
                let result = if random.chance(1, 4) { case.flush() } else { case.write_random(&mut random) };
                if result.is_err() {
                    // Each block is as before or as it was to be.
                    failed += 1;
                    case.device.heal();
                    case.check(false, "after an error");
                }
            }
            case.device.heal();
            case.write_random(&mut random).unwrap();
            case.check(false, "after errors");
            if random.chance(1, 3) {
                case.device.power().crash_after(1);
                assert!(case.area.flush().is_err());
                case.device.power_cut(seed);
                case.device.power().restore();
            }
            case.reopen();
            case.check(false, "opened again");
        }
        case.write_random(&mut random).unwrap();
        case.flush().unwrap();
        case.reopen();
        case.check(true, "written and opened again");
        assert!(failed > 0, "seed {seed}");
    }
}
