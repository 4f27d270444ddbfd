//! Small cases that were worked out on paper.

use mezzanine_ground::replacement::{PageKey, Policy, Replacement};

use super::Each;

/// Has a policy of so many frames do something.
fn with(policy: Policy, frames: u64, given: &[(&'static str, u64)], work: &dyn Fn(&dyn Replacement)) {
    let config = policy.configured(frames, given).unwrap();
    let region = config.region();
    config.open(&region, 0).visit(Each(&|order| {
        work(order);
        order.check();
    }));
}

#[test]
fn a_dirty_page_outlives_as_many_clean_ones_as_it_costs_more() {
    // A clean page costs 10 and a dirty one 35, so L rises by 10 with each round of clean ones until it
    // passes 35.
    let savings = [("read-saving", 10), ("write-saving", 25)];
    with(Policy::GreedyDual, 2, &savings, &|order| {
        order.inserted(0, PageKey(100));
        order.dirtied(0);
        order.inserted(1, PageKey(1));
        for page in 2..5 {
            assert_eq!(order.victim(), Some(1), "L = {}", (page - 1) * 10);
            order.inserted(1, PageKey(page));
        }
        // H is 35 for the dirty page and 40 for the clean one, which came when L was 30.
        assert_eq!(order.victim(), Some(0));
        order.inserted(0, PageKey(5));
        // L is 35: the new page is worth 45, the one before 40.
        assert_eq!(order.victim(), Some(1));
    });
}

#[test]
fn of_equal_values_the_clean_page_leaves_and_cleaning_lowers_a_value() {
    let savings = [("read-saving", 10), ("write-saving", 10)];
    with(Policy::GreedyDual, 3, &savings, &|order| {
        order.inserted(0, PageKey(0));
        order.dirtied(0);
        order.inserted(1, PageKey(1));
        assert_eq!(order.victim(), Some(1));
        // L is 10 now, and both pages are worth 20.
        order.inserted(1, PageKey(2));
        assert_eq!(order.victim(), Some(1));
        order.inserted(1, PageKey(3));
        order.dirtied(1);
        order.inserted(2, PageKey(4));
        // 20, 40 and 30. A clean page is worth no more than 30, so the second falls to that, behind the
        // third.
        order.cleaned(0);
        order.cleaned(1);
        assert_eq!(order.victim(), Some(0), "20 is less than 30 all the same");
        assert_eq!(order.victim(), Some(2));
        assert_eq!(order.victim(), Some(1));
    });
}

#[test]
fn only_hotter_extents_come_into_a_full_cache() {
    let given = [("extent-pages", 4), ("random-weight", 10), ("ageing-period", 0)];
    with(Policy::Temperature, 2, &given, &|order| {
        let miss = |page| {
            order.missed(PageKey(page));
            order.admits(PageKey(page))
        };
        // Extents 0 and 2, both with one random reference; the second is in sequence with nothing.
        assert!(miss(1), "nothing is there that could be hotter");
        order.inserted(0, PageKey(1));
        miss(8);
        order.inserted(1, PageKey(8));
        // Extent 5 gets 10, as much as the coldest has; then 1 more, because 21 follows 20.
        assert!(!miss(20));
        assert!(miss(21));
        // Extent 0 was referenced before extent 2.
        assert_eq!(order.victim(), Some(0));
        order.inserted(0, PageKey(21));
        // Extent 2 gets another 10. Extent 0, which is not here any more, is still remembered: it has 20 with
        // this reference, and the coldest has 11.
        order.referenced(1);
        assert!(miss(3));
        assert_eq!(order.victim(), Some(0));
    });
}

#[test]
fn temperatures_age() {
    let given = [("extent-pages", 1), ("random-weight", 8), ("ageing-period", 2)];
    with(Policy::Temperature, 1, &given, &|order| {
        order.missed(PageKey(5));
        order.inserted(0, PageKey(5));
        // 16, and then 8, because two references are over.
        order.referenced(0);
        order.missed(PageKey(7));
        assert!(!order.admits(PageKey(7)), "8 is not more than 8");
        // 16 and 8, halved.
        order.referenced(0);
        order.missed(PageKey(7));
        assert!(order.admits(PageKey(7)), "12 is more than 8");
    });
}
