"""Many runs or measurements with one question: experiments and benchmarks."""
