package checkpoint

import (
	"fmt"
	"slices"
	"strings"
)

// Values of Component.Reshard. Any other is read as ReshardNone.
const (
	// ReshardNone: readable only at the world size that wrote it.
	ReshardNone = "none"
	// ReshardDP: readable at another data-parallel size.
	ReshardDP = "dp"
	// ReshardAny: readable at any shape.
	ReshardAny = "any"
)

// essential components: without them a resumption would continue another
// training, at whatever shape.
var essential = map[string]bool{"model": true, "optimizer": true}

// misfit says why a sound candidate does not fit the query; no reason means
// that it fits.
func misfit(q Query, m *Manifest) (reason, message string) {
	if avoid, ok := q.Avoid[m.ID]; ok {
		return ReasonRestoreFailed, avoid
	}
	if missing := leftOut(q, m); missing != "" {
		return ReasonComponentIncomplete, missing
	}
	if differs := otherIdentity(q.Identity, m.Identity); differs != "" {
		return ReasonIdentityMismatch, differs
	}
	if q.DeviceProfile != "" && q.DeviceProfile != m.DeviceProfile {
		return ReasonDeviceMismatch, fmt.Sprintf("written on devices %q, now they are %q", m.DeviceProfile, q.DeviceProfile)
	}
	if q.WorldSize == 0 || q.WorldSize == m.WorldSize {
		return "", ""
	}
	if q.ExactWorldSize {
		return ReasonWorldSizeMismatch, fmt.Sprintf(
			"written by %d ranks, %d are admitted, and spec.resume.compatibility.worldSize is Exact", m.WorldSize, q.WorldSize)
	}
	return reshape(m, q.WorldSize)
}

// leftOut names components that were left out on purpose and without which the
// state is not what it was: model or optimizer always, and any component where
// an exact resumption is asked for (without the RNG the numbers would differ).
func leftOut(q Query, m *Manifest) string {
	var names []string
	for name, c := range m.Components {
		if !c.Complete && (q.ExactWorldSize || essential[name]) {
			names = append(names, name)
		}
	}
	if names == nil {
		return ""
	}
	slices.Sort(names)
	text := "left out of the save: " + strings.Join(names, ", ")
	if q.ExactWorldSize {
		text += "; an exact resumption needs every component"
	}
	return text
}

// otherIdentity names the declared values that differ. What the manifest
// declares beyond them is not compared.
func otherIdentity(want, got map[string]string) string {
	var differs []string
	for key, value := range want {
		switch other, ok := got[key]; {
		case !ok:
			differs = append(differs, fmt.Sprintf("identity %s is %q, the checkpoint declares none", key, clip(value, 64)))
		case other != value:
			differs = append(differs, fmt.Sprintf("identity %s is %q, the checkpoint says %q", key, clip(value, 64), clip(other, 64)))
		}
	}
	slices.Sort(differs)
	return strings.Join(differs, "; ")
}

// reshape says why the checkpoint cannot be read by another number of ranks.
// Components that were left out need no reading.
func reshape(m *Manifest, worldSize int32) (reason, message string) {
	var fixed, parallel []string
	for name, c := range m.Components {
		switch {
		case !c.Complete || c.Reshard == ReshardAny:
		case c.Reshard == ReshardDP:
			parallel = append(parallel, name)
		default:
			fixed = append(fixed, name)
		}
	}
	if fixed != nil {
		slices.Sort(fixed)
		return ReasonWorldSizeMismatch, fmt.Sprintf("written by %d ranks, %d are admitted, and only %d ranks can read: %s",
			m.WorldSize, worldSize, m.WorldSize, strings.Join(fixed, ", "))
	}
	if parallel == nil {
		return "", ""
	}
	if why := rescaleDP(m.Layout.normalised(), m.WorldSize, worldSize); why != "" {
		slices.Sort(parallel)
		return ReasonLayoutMismatch, fmt.Sprintf("written by %d ranks, %d are admitted: %s (%s reshard along dp only)",
			m.WorldSize, worldSize, why, strings.Join(parallel, ", "))
	}
	return "", ""
}

// rescaleDP says why the layout cannot be kept while only dp changes.
//
// One model replica takes tp*pp*cp ranks, so dp' = worldSize / (tp*pp*cp), a
// whole number of at least 1. Experts are usually spread over the ranks of dp
// and cp (Megatron-LM, TorchTitan): then dp'*cp must be a multiple of ep, or a
// rank would hold part of an expert group. Where the ranks that saved are
// dp*tp*pp*cp*ep instead, ep is a dimension of its own, and a replica takes
// tp*pp*cp*ep ranks. Whether the global batch divides by dp' is the SDK's
// business, since accumulation can change with it.
func rescaleDP(l Layout, saved, worldSize int32) string {
	replica := product(l.TP, l.PP, l.CP)
	formula := fmt.Sprintf("tp=%d x pp=%d x cp=%d", l.TP, l.PP, l.CP)
	separateExperts := l.EP > 1 && product(l.DP, l.TP, l.PP, l.CP, l.EP) == int64(saved)
	if separateExperts {
		replica = product(l.TP, l.PP, l.CP, l.EP)
		formula += fmt.Sprintf(" x ep=%d", l.EP)
	}
	if int64(saved)%replica != 0 {
		return fmt.Sprintf("its layout %s contradicts its %d ranks", formula, saved)
	}
	if int64(worldSize)%replica != 0 {
		return fmt.Sprintf("%d ranks are no multiple of %s", worldSize, formula)
	}
	if dp := int64(worldSize) / replica; !separateExperts && dp*int64(l.CP)%int64(l.EP) != 0 {
		return fmt.Sprintf("dp=%d x cp=%d is no multiple of ep=%d", dp, l.CP, l.EP)
	}
	return ""
}

// product of degrees; a value above any world size when it is too large.
func product(degrees ...int32) int64 {
	p := int64(1)
	for _, d := range degrees {
		if p *= int64(d); p > 1<<31 {
			return 1 << 32
		}
	}
	return p
}
