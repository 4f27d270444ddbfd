//! Fronts that show any [`Device`](mezzanine_device::Device) to the operating system and to other programs.
//!
//! [`nbd`] is a server of the network block device protocol, over Unix sockets and TCP: no kernel module, no
//! root, and virtual machines, kernels and test programs are its clients. [`fuse`] shows a device as a file,
//! which `losetup` makes a block device of; [`ublk`] makes a block device itself, where the kernel has the
//! driver.
//!
//! *Architecture invariant:* a front knows what a device is, and nothing of caches, tiers, volumes or models.
//!
//! *Architecture invariant:* what a client sends is input. It is bounded and checked, and what is wrong with
//! it is an error of the protocol or the end of that connection, never a panic.
#![deny(unsafe_code)]

mod gate;
mod zeroes;

pub mod nbd;

pub mod fuse;

pub mod ublk;
