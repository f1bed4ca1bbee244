package ckpt

// #include "ckpt_go.h"
import "C"

import (
	"fmt"
	"time"
)

// CheckpointState says what has become of a checkpoint or attempt.
type CheckpointState int32

// The states of checkpoints and attempts.
const (
	CheckpointCommitted CheckpointState = C.CKPT_CHECKPOINT_COMMITTED // loadable
	CheckpointOpen      CheckpointState = C.CKPT_CHECKPOINT_OPEN      // being written, or left by a crash
	CheckpointAborted   CheckpointState = C.CKPT_CHECKPOINT_ABORTED   // an attempt that will never be committed
	CheckpointDamaged   CheckpointState = C.CKPT_CHECKPOINT_DAMAGED   // its commit record cannot be read; see Repair
	// Sound, as far as this library can tell, but of a format revision that it lacks.
	CheckpointRevision CheckpointState = C.CKPT_CHECKPOINT_REVISION
	// Its commit record may be sound, but this user or machine cannot read it now.
	CheckpointUnreadable CheckpointState = C.CKPT_CHECKPOINT_UNREADABLE
)

// String returns "COMMITTED", "OPEN", "ABORTED", "DAMAGED", "REVISION" or "UNREADABLE".
func (s CheckpointState) String() string {
	return nameOf("CheckpointState", int32(s), map[int32]string{
		C.CKPT_CHECKPOINT_COMMITTED: "COMMITTED", C.CKPT_CHECKPOINT_OPEN: "OPEN",
		C.CKPT_CHECKPOINT_ABORTED: "ABORTED", C.CKPT_CHECKPOINT_DAMAGED: "DAMAGED",
		C.CKPT_CHECKPOINT_REVISION: "REVISION", C.CKPT_CHECKPOINT_UNREADABLE: "UNREADABLE",
	})
}

// The flags of a checkpoint.
const (
	CheckpointForeign    uint32 = C.CKPT_CHECKPOINT_FOREIGN     // of another store, copied here; never "latest"
	CheckpointRebuilt    uint32 = C.CKPT_CHECKPOINT_REBUILT     // rebuilt by force from an attempt that had not committed
	CheckpointCopy       uint32 = C.CKPT_CHECKPOINT_COPY        // another directory holds the same save; never "latest"
	CheckpointMirrored   uint32 = C.CKPT_CHECKPOINT_MIRRORED    // the store's mirror has it too, whole
	CheckpointMirroring  uint32 = C.CKPT_CHECKPOINT_MIRRORING   // a copy of it in the mirror has begun
	CheckpointMirrorOnly uint32 = C.CKPT_CHECKPOINT_MIRROR_ONLY // only the mirror has it; loads read it there
)

// CheckpointInfo describes one checkpoint or attempt.
type CheckpointInfo struct {
	State                      CheckpointState
	Flags                      uint32 // CheckpointForeign | …
	Revision                   uint32
	Step                       int64  // as the trainer gave it; -1 for none
	Token                      uint64 // of the session that wrote it; later sessions of a run have higher tokens
	Attempt                    uint64 // of that session at this label, counted from 1
	Sequence                   uint64 // orders the commits of one session
	Bytes                      uint64 // all parts and the manifest
	TensorCount, ObjectCount   uint64
	Created                    time.Time // the writer's clock; for people only
	WorldSize                  uint32    // ranks that wrote it
	PartCount                  uint32
	ID                         string // unique in the store: what OpenReader takes
	Label, Run                 string
	SaveID, StoreID, SessionID string // 32 hex digits
	Writer                     string // "ckpt 0.1.0"
	PassedOver                 uint64 // found or opened by a selector: newer checkpoints that cannot be loaded
}

func checkpointInfo(from *C.ckpt_checkpoint_info) CheckpointInfo {
	return CheckpointInfo{
		State: CheckpointState(from.state), Flags: uint32(from.flags), Revision: uint32(from.revision),
		Step: int64(from.step), Token: uint64(from.token), Attempt: uint64(from.attempt),
		Sequence: uint64(from.sequence), Bytes: uint64(from.bytes), TensorCount: uint64(from.tensor_count),
		ObjectCount: uint64(from.object_count), Created: time.UnixMilli(int64(from.created_unix_ms)),
		WorldSize: uint32(from.world_size), PartCount: uint32(from.part_count), ID: C.GoString(&from.id[0]),
		Label: C.GoString(&from.label[0]), Run: C.GoString(&from.run[0]), SaveID: C.GoString(&from.save_id[0]),
		StoreID: C.GoString(&from.store_id[0]), SessionID: C.GoString(&from.session_id[0]),
		Writer: C.GoString(&from.writer[0]), PassedOver: uint64(from.passed_over),
	}
}

// nameOf returns the name of an enumeration's value; a newer library may have values that are not listed here.
func nameOf(kind string, value int32, names map[int32]string) string {
	if name, known := names[value]; known {
		return name
	}
	return fmt.Sprintf("%s(%d)", kind, value)
}
