//! Answers to a client's options, without input or output.

use super::export::Offer;
use super::wire::{BASE_ALLOCATION, BASE_ALLOCATION_ID, Fields, info, option, option_reply, reply};

/// The longest name of an export or of a meta context, in bytes, as the protocol has it.
const STRING_MAX: usize = 4096;

/// What has been agreed so far, and with whom.
#[derive(Debug)]
pub(super) struct Negotiation<'o> {
    offers: &'o [Offer],
    no_zeroes: bool,
    structured: bool,
    /// The export whose allocation the client wants to ask for.
    allocation_of: Option<usize>,
    tls: Tls,
}

/// Whether the connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tls {
    /// It is not, and cannot be.
    Absent,
    /// It must be before anything else.
    Required,
    /// It is.
    Present,
}

/// With what transmission begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Agreed {
    /// Which of the exports.
    pub(super) export: usize,
    /// Replies are structured.
    pub(super) structured: bool,
    /// The client may ask which ranges are holes.
    pub(super) allocation: bool,
}

/// What comes after an option. Replies are sent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Another option.
    Haggle,
    /// Encryption, then other options.
    StartTls,
    /// Transmission.
    Transmit(Agreed),
    /// The end, as the client wished.
    Abort,
    /// The end, because the protocol has no answer to that.
    Refuse(&'static str),
}

/// What a client asks INFO or GO for.
struct InfoRequest<'a> {
    name: &'a [u8],
    kinds: Vec<u16>,
}

impl<'o> Negotiation<'o> {
    pub(super) fn new(offers: &'o [Offer], no_zeroes: bool, tls: Tls) -> Self {
        Self { offers, no_zeroes, structured: false, allocation_of: None, tls }
    }

    /// The connection has become encrypted: what was agreed before does not count.
    pub(super) fn encrypted(&mut self) {
        (self.structured, self.allocation_of, self.tls) = (false, None, Tls::Present);
    }

    /// Answers an option by appending to `out`.
    pub(super) fn answer(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Step {
        if self.tls == Tls::Required && !matches!(option, option::STARTTLS | option::ABORT) {
            if option == option::EXPORT_NAME {
                return Step::Refuse("it has not begun encryption, which is required");
            }
            option_reply(out, option, reply::ERR_TLS_REQD, b"begin encryption first");
            return Step::Haggle;
        }
        match option {
            option::EXPORT_NAME => return self.export_name(data, out),
            option::ABORT => {
                option_reply(out, option, reply::ACK, b"");
                return Step::Abort;
            }
            option::LIST => self.list(data, out),
            option::STARTTLS => return self.start_tls(data, out),
            option::INFO | option::GO => return self.info(option, data, out),
            option::STRUCTURED_REPLY if !data.is_empty() => invalid(out, option, "the option has no data"),
            option::STRUCTURED_REPLY => {
                self.structured = true;
                option_reply(out, option, reply::ACK, b"");
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.meta_context(option, data, out),
            _ => option_reply(out, option, reply::ERR_UNSUP, b"this server has no such option"),
        }
        Step::Haggle
    }

    /// Answers an option whose data were too long to be looked at.
    pub(super) fn too_long(&self, option: u32, out: &mut Vec<u8>) -> Step {
        if option == option::EXPORT_NAME {
            return Step::Refuse("the name of an export is too long");
        }
        option_reply(out, option, reply::ERR_TOO_BIG, b"no option is that long");
        Step::Haggle
    }

    /// The export of this name; the first one for those who name none.
    fn find(&self, name: &[u8]) -> Option<usize> {
        let named = self.offers.iter().position(|offer| offer.name.as_bytes() == name);
        named.or((name.is_empty() && !self.offers.is_empty()).then_some(0))
    }

    fn agreed(&self, export: usize) -> Agreed {
        let allocation = self.structured && self.allocation_of == Some(export);
        Agreed { export, structured: self.structured, allocation }
    }

    /// The option of old clients; its answer has no way to say no.
    fn export_name(&self, data: &[u8], out: &mut Vec<u8>) -> Step {
        let Some(export) = self.find(data) else { return Step::Refuse("there is no export of that name") };
        let offer = &self.offers[export];
        out.extend_from_slice(&offer.len.to_be_bytes());
        out.extend_from_slice(&offer.flags(self.structured).to_be_bytes());
        if !self.no_zeroes {
            out.extend_from_slice(&[0; 124]);
        }
        Step::Transmit(self.agreed(export))
    }

    fn list(&self, data: &[u8], out: &mut Vec<u8>) {
        if !data.is_empty() {
            return invalid(out, option::LIST, "the option has no data");
        }
        for offer in self.offers {
            let mut entry = (offer.name.len() as u32).to_be_bytes().to_vec();
            entry.extend_from_slice(offer.name.as_bytes());
            entry.extend_from_slice(offer.description.as_bytes());
            option_reply(out, option::LIST, reply::SERVER, &entry);
        }
        option_reply(out, option::LIST, reply::ACK, b"");
    }

    fn start_tls(&self, data: &[u8], out: &mut Vec<u8>) -> Step {
        let option = option::STARTTLS;
        match self.tls {
            _ if !data.is_empty() => invalid(out, option, "the option has no data"),
            Tls::Absent => option_reply(out, option, reply::ERR_POLICY, b"this server has no certificate"),
            Tls::Present => invalid(out, option, "the connection is encrypted already"),
            Tls::Required => {
                option_reply(out, option, reply::ACK, b"");
                return Step::StartTls;
            }
        }
        Step::Haggle
    }

    fn info(&self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Step {
        let Some(request) = InfoRequest::parse(data) else {
            invalid(out, option, "the lengths in the option do not add up");
            return Step::Haggle;
        };
        let Some(export) = self.find(request.name) else {
            option_reply(out, option, reply::ERR_UNKNOWN, b"there is no export of that name");
            return Step::Haggle;
        };
        let offer = &self.offers[export];
        let mut tell = |kind: u16, parts: &[&[u8]]| {
            let mut data = kind.to_be_bytes().to_vec();
            parts.iter().for_each(|part| data.extend_from_slice(part));
            option_reply(out, option, reply::INFO, &data);
        };
        tell(info::EXPORT, &[&offer.len.to_be_bytes(), &offer.flags(self.structured).to_be_bytes()]);
        if request.kinds.contains(&info::NAME) {
            tell(info::NAME, &[offer.name.as_bytes()]);
        }
        if request.kinds.contains(&info::DESCRIPTION) {
            tell(info::DESCRIPTION, &[offer.description.as_bytes()]);
        }
        // Also to those who did not ask: the protocol has a server say so if it is not as clients assume.
        let sizes = [offer.minimum, offer.preferred, offer.maximum].map(u32::to_be_bytes);
        tell(info::BLOCK_SIZE, &[&sizes[0], &sizes[1], &sizes[2]]);
        option_reply(out, option, reply::ACK, b"");
        if option == option::GO { Step::Transmit(self.agreed(export)) } else { Step::Haggle }
    }

    /// Which meta contexts there are, and which of them the client wants to ask for.
    fn meta_context(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) {
        let is_set = option == option::SET_META_CONTEXT;
        if is_set {
            self.allocation_of = None;
        }
        if !self.structured {
            return invalid(out, option, "structured replies have to be agreed on first");
        }
        let mut fields = Fields(data);
        let Some((name, queries)) = fields.string().zip(fields.u32()) else {
            return invalid(out, option, "the lengths in the option do not add up");
        };
        let mut wanted = !is_set && queries == 0;
        for _ in 0..queries {
            let Some(query) = fields.string() else {
                return invalid(out, option, "the lengths in the option do not add up");
            };
            // A name space alone asks for all that is in it, in a list.
            wanted |= query == BASE_ALLOCATION.as_bytes() || !is_set && query == b"base:";
        }
        if !fields.is_empty() {
            return invalid(out, option, "the lengths in the option do not add up");
        }
        let Some(export) = self.find(name) else {
            return option_reply(out, option, reply::ERR_UNKNOWN, b"there is no export of that name");
        };
        if wanted {
            let id = if is_set { BASE_ALLOCATION_ID } else { 0 };
            let mut context = id.to_be_bytes().to_vec();
            context.extend_from_slice(BASE_ALLOCATION.as_bytes());
            option_reply(out, option, reply::META_CONTEXT, &context);
        }
        if is_set && wanted {
            self.allocation_of = Some(export);
        }
        option_reply(out, option, reply::ACK, b"");
    }
}

impl<'a> InfoRequest<'a> {
    fn parse(data: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(data);
        let name = fields.string().filter(|name| name.len() <= STRING_MAX)?;
        let count = fields.u16()?;
        let kinds = (0..count).map(|_| fields.u16()).collect::<Option<Vec<_>>>()?;
        fields.is_empty().then_some(Self { name, kinds })
    }
}

fn invalid(out: &mut Vec<u8>, option: u32, why: &str) {
    option_reply(out, option, reply::ERR_INVALID, why.as_bytes());
}

#[cfg(test)]
#[path = "negotiation_tests.rs"]
mod tests;
