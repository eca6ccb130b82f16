# get_pypi.sh - programs of PyPI that use the driver, and where there is no toolkit the parts of one, into
# build/clients. Sourced by tests/setup.sh. What cannot be had is skipped by its tests.

get_client() { # NAME PACKAGE...
	name=$1
	shift
	[ ! -d "$top/build/clients/$name" ] || return 0
	echo "setup: fetching $name into build/clients" >&2
	"$top/tests/get_wheels.sh" "$top/build/clients/$name" "$@" ||
		echo "setup: $name cannot be had; its tests will be skipped" >&2
}

[ "$("$top/tests/clients/toolkit.sh")" != none ] ||
	get_client toolkit 'nvidia-cuda-nvrtc==13.0.*' 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-crt==13.0.*' \
		'nvidia-cuda-nvcc==13.0.*' 'nvidia-nvvm==13.0.*'
get_client tinygrad tinygrad==0.14.0
get_client cuda-python 'cuda-bindings==13.0.*' 'cuda-pathfinder==1.*'
get_client taichi taichi==1.7.4 'colorama==0.4.*' 'dill==0.3.*' 'rich==13.*'
get_client triton triton==3.5.0
get_client numba-cuda numba-cuda==0.30.4 numba==0.68.1 llvmlite==0.50.0 numpy==2.4.6 cuda-bindings==13.5.0 \
	cuda-core==1.2.2 cuda-pathfinder==1.9.1 packaging==26.4 \
	nvidia-nvvm==13.5.37 nvidia-cuda-nvrtc==13.5.37 nvidia-cuda-runtime==13.5.37 nvidia-nvjitlink==13.5.37
# What unpacks it forgets who may run.
chmod -f +x "$top"/build/clients/toolkit/nvidia/cu13/bin/* "$top"/build/clients/toolkit/nvidia/cu13/nvvm/bin/* || :
chmod -f +x "$top"/build/clients/triton/triton/backends/nvidia/bin/* || :
