//! Fronts that show any [`Device`](mezzanine_device::Device) to the operating system and to other programs.
//!
//! [`nbd`] is a server of the network block device protocol, over Unix sockets and TCP: no kernel module, no
//! root, and virtual machines, kernels and test programs are its clients.
//!
//! *Architecture invariant:* a front knows what a device is, and nothing of caches, tiers, volumes or models.
//!
//! *Architecture invariant:* what a client sends is input. It is bounded and checked, and what is wrong with
//! it is an error of the protocol or the end of that connection, never a panic.
#![forbid(unsafe_code)]

pub mod nbd;
