package world

// shrink returns a shorter script that still fails, by leaving out ever smaller
// parts of it (ddmin, Zeller and Hildebrandt 2002). fails runs one, at most budget
// times in all; progress, if set, is told the length that is reached.
func shrink(s Script, budget int, fails func(Script) bool, progress func(length int)) Script {
	for size := len(s) / 2; size > 0; {
		shorter := false
		for from := 0; from < len(s); {
			if budget--; budget < 0 {
				return s
			}
			without := append(append(Script{}, s[:from]...), s[min(from+size, len(s)):]...)
			if !fails(without) {
				from += size
				continue
			}
			s, shorter = without, true
			if progress != nil {
				progress(len(s))
			}
		}
		if !shorter || size > len(s) {
			size /= 2
		}
	}
	return s
}
