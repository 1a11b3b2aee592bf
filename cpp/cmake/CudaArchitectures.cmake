# The GPUs that kernels are compiled for where nothing else is asked: every one from SM 7.5 to 12.0 that nvcc knows as
# machine code, and the newest of them as PTX, too, which later GPUs translate. `known` is what `nvcc --list-gpu-arch`
# prints; the answer is a value of CMAKE_CUDA_ARCHITECTURES.
function(trtw_default_cuda_architectures known result)
  string(REGEX MATCHALL "[0-9]+" numbers "${known}")
  set(chosen)
  foreach(number IN LISTS numbers)
    if(number GREATER_EQUAL 75 AND number LESS_EQUAL 120)
      list(APPEND chosen ${number})
    endif()
  endforeach()
  list(SORT chosen COMPARE NATURAL)
  list(REMOVE_DUPLICATES chosen)
  list(POP_BACK chosen newest)
  list(TRANSFORM chosen APPEND "-real")
  set(${result} ${chosen} ${newest} PARENT_SCOPE)
endfunction()
