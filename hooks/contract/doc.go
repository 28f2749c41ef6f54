// Package contract holds the messages of Metacontroller's CompositeController
// hooks: what a runner sends to sync, finalize and customize, and what it gets
// back. They are those of version v2; [ObjectMap.RelativeTo] makes the one thing
// that version v1 has otherwise.
//
// The envelope is decoded strictly, the objects inside not at all. A message
// with an unknown, duplicate or missing top-level field, a null object, a value
// of the wrong type or trailing data is refused with an [Error] that names the
// place, since a runner that means something else by its message must not be
// guessed at. The objects stay the bytes that were sent, so that a field of a
// JobSet or a Kueue one version newer than this program passes through it
// unharmed. Whoever needs an object decodes it once, into the fields wanted.
//
// One thing is left out of the objects of a request: metadata.managedFields.
// It is most of what an API server adds to an object, no decision reads it, and
// a hook must not return it.
//
// The protocol is that of https://metacontroller.github.io/metacontroller/api/compositecontroller.html
// with responseUnMarshallMode strict, the default of v2. Answers can be decoded
// loosely as well, which is the default of v1.
package contract
