// Package store models an S3-compatible store within the limits of real ones, and
// what rtj reads of a run in it.
//
// What it keeps of real stores:
//   - an object is there whole or not at all; the same PUT again is harmless;
//   - a read follows a write, and a listing does too, unless SlowListings is on;
//   - a listing comes in the order of the keys' bytes, in pages;
//   - the ETag of one PUT is the MD5 of its bytes, that of a multipart upload is not,
//     and an upload that was never completed is shown by nothing;
//   - a PUT may be done and its answer lost: PutLost;
//   - bytes may rot without a change of size and ETag: only a read proves them.
//
// What can happen to it: outage, throttling, refused credentials, a bucket that is
// gone, objects that are lost or cut or rot, an object that is listed and cannot be
// read, foreign files, listings that are late. Each is a call for scripts and, where
// Offer allows it, an event.
//
// [Reader] finds what [catalog.Reader] finds, hundreds of times faster: documents are
// parsed once an object, by the parsers of the product, but for progress, which comes
// with what it says; completeness is judged once for the same objects, by the product's
// judge. [Store.Compare] makes a reading both ways. A Reader remembers what the
// product's remembers, so a verdict may be as old as there; its readings can be made in
// stages, between which the world goes on.
//
// Left out: latency of single requests. How long a reading takes is the choice of who
// drives its stages, and how long a save takes that of the trainer.
package store
