# Sourced when a GPU environment is activated: makes the TensorRT that setup-tensorrt made current visible.
# A TENSORRT_HOME of the user's own stays. Only variables outlive this script.
export TENSORRT_HOME="${TENSORRT_HOME:-${PIXI_PROJECT_ROOT}/extern/tensorrt/current}"
case ":${LD_LIBRARY_PATH:-}:" in
  *":${TENSORRT_HOME}/lib:"*) ;;
  # Never a trailing colon: an empty entry would mean the current folder.
  *) export LD_LIBRARY_PATH="${TENSORRT_HOME}/lib${LD_LIBRARY_PATH:+:${LD_LIBRARY_PATH}}" ;;
esac
case ":${PATH}:" in
  *":${TENSORRT_HOME}/bin:"*) ;;
  *) export PATH="${TENSORRT_HOME}/bin:${PATH}" ;;
esac
