package admin

import (
	"iter"
	"slices"
)

// firstOf returns the elements with the first n in order at the front. For a page
// of a long list it keeps a heap of n, which reads each element about once, where
// sorting would read all of them many times: 50,000 names are in as many places.
// What is not among them may be missing then, and is looked at one by one: what
// there is to compare need not be there at once.
func firstOf[T any](all iter.Seq[T], total, n int, order func(a, b T) int) []T {
	if n*4 > total {
		sorted := slices.AppendSeq(make([]T, 0, total), all)
		slices.SortFunc(sorted, order)
		return sorted
	}
	heap := make([]T, 0, n) // the last in order is on top
	for of := range all {
		switch {
		case len(heap) < n:
			heap = append(heap, of)
			for i := len(heap) - 1; i > 0; {
				parent := (i - 1) / 2
				if order(heap[i], heap[parent]) <= 0 {
					break
				}
				heap[i], heap[parent] = heap[parent], heap[i]
				i = parent
			}
		case n > 0 && order(of, heap[0]) < 0:
			heap[0] = of
			sink(heap, order)
		}
	}
	slices.SortFunc(heap, order)
	return heap
}

// sink restores a heap whose top has changed.
func sink[T any](heap []T, order func(a, b T) int) {
	for i := 0; ; {
		last := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(heap) && order(heap[child], heap[last]) > 0 {
				last = child
			}
		}
		if last == i {
			return
		}
		heap[i], heap[last] = heap[last], heap[i]
		i = last
	}
}
