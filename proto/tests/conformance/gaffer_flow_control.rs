//! The article's good/bad mode against the code that came with it (docs/wire/gaffer.md, section 5).

use tidegate_proto::mode::{ArticleRate, Mode};

use crate::compare::assert_same;
use crate::vectors::{each_case, int, items};

fn number(value: &serde_json::Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("not a number: {value}"))
}

#[test]
fn modes_and_penalties_follow_the_vectors() {
    each_case("gaffer_flow_control.json", "cases", |case| {
        let mut rate = ArticleRate::default();
        for (index, step) in items(case, "steps").iter().enumerate() {
            for _ in 0..int(&step[0]) {
                rate.update_with(number(&step[1]), number(&step[2]));
            }
            let (mode, rate_hz) = match rate.switch().mode() {
                Mode::Good => ("good", 30.0),
                Mode::Bad => ("bad", 10.0),
            };
            assert_same(mode, &step[3], &format!("step {index}: mode"));
            let penalty = rate.switch().penalty();
            assert_same(penalty, number(&step[4]), &format!("step {index}: penalty"));
            assert_same(rate_hz, number(&step[5]), &format!("step {index}: rate"));
        }
    });
}
