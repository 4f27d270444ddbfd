use super::super::wire::{OPTION_REPLY_MAGIC, transmission};
use super::*;

fn offer(name: &str) -> Offer {
    Offer {
        name: name.to_owned(),
        description: format!("the {name} one"),
        len: 1 << 20,
        read_only: name == "second",
        minimum: 512,
        preferred: 4096,
        maximum: 32 << 20,
        rotational: false,
    }
}

/// Types and data of the replies to one option, which is repeated in each.
fn answer(negotiation: &mut Negotiation<'_>, option: u32, data: &[u8]) -> (Vec<(u32, Vec<u8>)>, Step) {
    let mut out = Vec::new();
    let step = negotiation.answer(option, data, &mut out);
    let mut fields = Fields(&out);
    let mut replies = Vec::new();
    while !fields.is_empty() {
        assert_eq!((fields.u64(), fields.u32()), (Some(OPTION_REPLY_MAGIC), Some(option)));
        let kind = fields.u32().expect("a type");
        replies.push((kind, fields.string().expect("data").to_vec()));
    }
    (replies, step)
}

fn kinds(replies: &[(u32, Vec<u8>)]) -> Vec<u32> {
    replies.iter().map(|reply| reply.0).collect()
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

fn go(name: &str, asked: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.extend_from_slice(&(asked.len() as u16).to_be_bytes());
    asked.iter().for_each(|kind| data.extend_from_slice(&kind.to_be_bytes()));
    data
}

fn meta(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(name);
    data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    queries.iter().for_each(|query| data.extend_from_slice(&string(query)));
    data
}

#[test]
fn go_tells_size_flags_and_blocks_and_begins() {
    let offers = [offer("first"), offer("second")];
    let mut negotiation = Negotiation::new(&offers, true, Tls::Absent);
    let (replies, step) = answer(&mut negotiation, option::GO, &go("second", &[info::NAME, 99]));
    assert_eq!(kinds(&replies), [reply::INFO, reply::INFO, reply::INFO, reply::ACK]);
    let mut export = Fields(&replies[0].1);
    assert_eq!((export.u16(), export.u64()), (Some(info::EXPORT), Some(1 << 20)));
    let flags = export.u16().expect("flags");
    assert_eq!(flags & transmission::READ_ONLY, transmission::READ_ONLY);
    assert_eq!(flags & (transmission::SEND_TRIM | transmission::SEND_DF), 0);
    assert_eq!(replies[1].1, b"\0\x01second");
    assert_eq!(replies[2].1, b"\0\x03\0\0\x02\0\0\0\x10\0\x02\0\0\0");
    assert_eq!(step, Step::Transmit(Agreed { export: 1, structured: false, allocation: false }));
}

#[test]
fn the_old_option_has_zeroes_behind_it_unless_both_do_without() {
    let offers = [offer("first")];
    for (no_zeroes, len) in [(true, 10), (false, 134)] {
        let mut out = Vec::new();
        // Those who name none get the first.
        let step =
            Negotiation::new(&offers, no_zeroes, Tls::Absent).answer(option::EXPORT_NAME, b"", &mut out);
        assert!(matches!(step, Step::Transmit(Agreed { export: 0, .. })));
        assert_eq!(out.len(), len);
    }
    let step =
        Negotiation::new(&offers, true, Tls::Absent).answer(option::EXPORT_NAME, b"x", &mut Vec::new());
    assert!(matches!(step, Step::Refuse(_)));
}

#[test]
fn what_is_unknown_or_does_not_add_up_is_refused_and_haggling_goes_on() {
    let offers = [offer("first")];
    let mut negotiation = Negotiation::new(&offers, true, Tls::Absent);
    let mut longer = go("first", &[3]);
    longer.push(0);
    let mut promised = string("first");
    promised.extend_from_slice(&u16::MAX.to_be_bytes());
    for (option, data, error) in [
        (77, vec![1, 2, 3], reply::ERR_UNSUP),
        (4, vec![], reply::ERR_UNSUP),
        (option::GO, go("third", &[]), reply::ERR_UNKNOWN),
        (option::GO, vec![], reply::ERR_INVALID),
        (option::GO, u32::MAX.to_be_bytes().to_vec(), reply::ERR_INVALID),
        (option::INFO, longer, reply::ERR_INVALID),
        (option::INFO, promised, reply::ERR_INVALID),
        (option::LIST, vec![0], reply::ERR_INVALID),
        (option::STRUCTURED_REPLY, vec![0], reply::ERR_INVALID),
        (option::STARTTLS, vec![], reply::ERR_POLICY),
        (option::SET_META_CONTEXT, meta("first", &["base:allocation"]), reply::ERR_INVALID),
    ] {
        let (replies, step) = answer(&mut negotiation, option, &data);
        assert_eq!((kinds(&replies), step), (vec![error], Step::Haggle), "option {option}");
    }
    let mut out = Vec::new();
    assert_eq!(negotiation.too_long(option::GO, &mut out), Step::Haggle);
    assert!(matches!(negotiation.too_long(option::EXPORT_NAME, &mut out), Step::Refuse(_)));
    assert_eq!(answer(&mut negotiation, option::ABORT, b"").1, Step::Abort);
}

#[test]
fn a_list_has_every_export_and_its_description() {
    let offers = [offer("first"), offer("second")];
    let (replies, _) = answer(&mut Negotiation::new(&offers, true, Tls::Absent), option::LIST, b"");
    assert_eq!(kinds(&replies), [reply::SERVER, reply::SERVER, reply::ACK]);
    assert_eq!(replies[1].1, b"\0\0\0\x06secondthe second one");
}

#[test]
fn allocation_is_for_the_export_it_was_agreed_on_for() {
    let offers = [offer("first"), offer("second")];
    let mut negotiation = Negotiation::new(&offers, true, Tls::Absent);
    answer(&mut negotiation, option::STRUCTURED_REPLY, b"");
    for list in [meta("first", &[]), meta("first", &["base:"]), meta("first", &["x:y", BASE_ALLOCATION])] {
        let (replies, _) = answer(&mut negotiation, option::LIST_META_CONTEXT, &list);
        assert_eq!(kinds(&replies), [reply::META_CONTEXT, reply::ACK]);
        assert_eq!(replies[0].1, b"\0\0\0\0base:allocation");
    }
    let none = answer(&mut negotiation, option::SET_META_CONTEXT, &meta("first", &["base:", "qemu:x"])).0;
    assert_eq!(kinds(&none), [reply::ACK]);
    let mut cut = meta("first", &[BASE_ALLOCATION]);
    cut.pop();
    assert_eq!(
        kinds(&answer(&mut negotiation, option::SET_META_CONTEXT, &cut).0),
        [reply::ERR_INVALID],
        "a query that is cut short"
    );
    let some = answer(&mut negotiation, option::SET_META_CONTEXT, &meta("first", &[BASE_ALLOCATION])).0;
    assert_eq!(some[0].1, b"\0\0\0\x01base:allocation");
    let begun =
        |negotiation: &mut Negotiation<'_>, name| match answer(negotiation, option::GO, &go(name, &[])).1 {
            Step::Transmit(agreed) => agreed,
            step => panic!("{step:?}"),
        };
    assert!(begun(&mut negotiation, "first").allocation);
    assert!(!begun(&mut negotiation, "second").allocation);
}

#[test]
fn what_was_said_in_the_clear_does_not_count_after_encryption() {
    let offers = [offer("first")];
    let mut negotiation = Negotiation::new(&offers, true, Tls::Required);
    for option in [option::LIST, option::GO, option::STRUCTURED_REPLY, 77] {
        assert_eq!(kinds(&answer(&mut negotiation, option, b"").0), [reply::ERR_TLS_REQD]);
    }
    assert!(matches!(negotiation.answer(option::EXPORT_NAME, b"first", &mut Vec::new()), Step::Refuse(_)));
    assert_eq!(answer(&mut negotiation, option::STARTTLS, b"").1, Step::StartTls);
    negotiation.encrypted();
    assert_eq!(kinds(&answer(&mut negotiation, option::STARTTLS, b"").0), [reply::ERR_INVALID]);
    let begun = answer(&mut negotiation, option::GO, &go("first", &[])).1;
    assert_eq!(begun, Step::Transmit(Agreed { export: 0, structured: false, allocation: false }));
}
