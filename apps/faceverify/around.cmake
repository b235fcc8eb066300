# What stands around the server: faces, enrolment, ROC curves, the load generator. Pictures need libpng and libjpeg.
set(FACE_AROUND faces/draw.c faces/crowd.c load/load.c load/plan.c load/connection.c load/worker.c load/report.c load/times.c)
set(FACE_AROUND_LIBS)
pkg_check_modules(PNG IMPORTED_TARGET libpng)
pkg_check_modules(JPEG IMPORTED_TARGET libjpeg)
if(PNG_FOUND AND JPEG_FOUND)
  list(APPEND FACE_AROUND faces/faces.c enrol/enrol.c enrol/read.c enrol/store.c enrol/verify.c roc/roc.c roc/curve.c roc/show.c picture/picture.c picture/png.c picture/jpeg.c picture/exif.c
       picture/pyramid.c picture/align.c picture/eyes.c)
  set(FACE_AROUND_LIBS PkgConfig::PNG PkgConfig::JPEG)
  gw_app_test(app_faceverify_enrol python3 ${CMAKE_CURRENT_SOURCE_DIR}/tests/enrol.py)
  gw_app_test(app_faceverify_roc python3 ${CMAKE_CURRENT_SOURCE_DIR}/tests/roc.py)
  if(GW_TESTS)
    gw_test(test_face_picture SOURCES tests/test_face_picture.c faces/draw.c picture/picture.c picture/png.c picture/jpeg.c
            picture/exif.c picture/pyramid.c picture/align.c picture/eyes.c
            LIBS gpuwire_shared PkgConfig::PNG PkgConfig::JPEG m LABELS apps)
  endif()
  set_property(SOURCE faceverify.c APPEND PROPERTY COMPILE_DEFINITIONS FACE_PICTURES=1)
else()
  message(STATUS "faceverify: no enrolment of pictures (needs libpng-dev and libjpeg-dev)")
endif()
gw_app_test(app_faceverify_load python3 ${CMAKE_CURRENT_SOURCE_DIR}/tests/load.py)
